//! `put`: copies files of this machine onto a volume.

mod order;
mod print;
mod send;

use anyhow::{Context as _, ensure};

use super::copied::named;
use super::pod::{Pod, Stop, VolumeUser, in_pod, place};
use super::text::print_note;
use super::{Outcome, open_current, print_error};
use crate::cluster::{Access, Mount, Purpose};
use crate::config::{Database, PutOptions, Writing};
use crate::put::{Found, NameError, check_folder, find, path_of};
pub(super) use order::Order;
use order::{beyond_limit, identity};
use print::print_results;
pub(super) use print::summary;
pub(super) use send::Brought;
use send::Sender;

pub(super) async fn exec(database: &Database, options: &PutOptions) -> anyhow::Result<Outcome> {
    let folder = check_folder(&options.to)?;
    let Found { files, left_out } = find(&options.root, &options.paths)?;
    note_left_out(&left_out);
    let order = Order {
        namespace: options.namespace.clone(),
        claim: options.persistent_volume_claim.clone(),
        folder,
        run_as_user: options.run_as_user,
        run_as_group: options.run_as_group,
        image: options.image.clone(),
        overwrite: options.overwrite,
        dry_run: options.dry_run,
        files,
    };
    let brought = match Box::pin(put(database, &order, &options.writing)).await? {
        Ok(brought) => brought,
        Err(refusal) => {
            print_error(&refusal);
            return Ok(Outcome::Failed);
        }
    };
    print_results(&order, &brought, options.output);
    Ok(if brought.is_whole() { Outcome::Done } else { Outcome::Failed })
}

/// Copies files with a pod of the user's own; the sentence why nothing is copied if something is in the way.
pub(super) async fn put(
    database: &Database,
    order: &Order,
    writing: &Writing,
) -> anyhow::Result<Result<Brought, String>> {
    ensure!(!order.files.is_empty(), "there is no file to copy: the folders that are named hold none");
    let paths = order
        .files
        .iter()
        .map(|file| path_of(&order.folder, &file.name))
        .collect::<Result<Vec<String>, NameError>>()?;
    let store = open_current(database).await?;
    let destination = store.destination(&order.namespace).await?;
    let in_use = store.in_use(&order.namespace, &order.claim).await?;
    store.close().await;
    let destination = destination.with_context(|| {
        format!(
            "namespace {} is not one of yours; ask the admin to add it to gromacs_tenant",
            order.namespace
        )
    })?;
    if let Some(refusal) = beyond_limit(&destination, &order.files) {
        return Ok(Err(refusal));
    }
    let (user, group) = identity(order, &destination)?;
    let image = order.image.as_ref().or(destination.image.as_ref()).context(
        "no image is known in which the volume could be written: neither the tenant has one nor a row of yours; name one with \
         --image, such as debian:stable-slim",
    )?;
    let access = Access::connect(&writing.kubernetes, &order.namespace).await?;
    let mount = Mount {
        namespace: &order.namespace,
        claim: &order.claim,
        user,
        group,
        service_account: destination.service_account.as_deref(),
    };
    let (name, staging) = (send::pod_name(), send::staging(&order.folder));
    let purpose = Purpose::Write { staging: &staging };
    let mut stop = Stop::new()?;
    let placement = stop.unless(place(&access, mount, purpose, "")).await?;
    let volume = VolumeUser {
        access: &access,
        mount,
        image,
        purpose,
        placement: &placement,
        wait: writing.wait,
        within: writing.within,
    };
    let work = async |pod: &Pod<'_>| {
        let mut sender = Sender::new(pod, order, &paths, &staging, user);
        Box::pin(sender.send(&in_use)).await
    };
    in_pod(&volume, &name, &mut stop, work).await
}

/// What is left out is said before anything else: it may be what the user wanted.
fn note_left_out(left_out: &[String]) {
    if !left_out.is_empty() {
        let names = named(left_out.iter().map(String::as_str));
        print_note(&format!("links, hidden files and what is no file are left out: {names}"));
    }
}
