//! What is asked for, and what the tenant lets through of it. Pure.

use anyhow::bail;

use crate::cli::copied::bytes_of;
use crate::cli::text::number_of;
use crate::put::LocalFile;
use crate::store::Destination;

/// What is to be copied, and where to.
#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(crate) namespace: String,
    pub(crate) claim: String,
    /// From the root of the volume; empty for the root itself.
    pub(crate) folder: String,
    pub(crate) run_as_user: Option<i64>,
    pub(crate) run_as_group: Option<i64>,
    pub(crate) image: Option<String>,
    pub(crate) overwrite: bool,
    pub(crate) dry_run: bool,
    pub(crate) files: Vec<LocalFile>,
}

/// Why that is too much for the tenant; none if it is not.
pub(super) fn beyond_limit(destination: &Destination, files: &[LocalFile]) -> Option<String> {
    let limit = destination.max_put_bytes.and_then(|limit| u64::try_from(limit).ok())?;
    let bytes = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.size));
    (bytes > limit).then(|| {
        format!(
            "{} {} {} bytes, and the limit of the tenant for one command is {}; copy less, or ask the admin for more \
             (max_put_bytes)",
            number_of(files.len(), "file"),
            if files.len() == 1 { "has" } else { "have" },
            bytes_of(bytes),
            bytes_of(limit)
        )
    })
}

/// User and group as whom files are written: those of the rows, which are to read them.
pub(super) fn identity(order: &Order, destination: &Destination) -> anyhow::Result<(i64, i64)> {
    let of = |what: &str, asked: Option<i64>, tenant: Option<i64>| match (asked, tenant) {
        (Some(asked), Some(tenant)) if asked != tenant => {
            bail!("the tenant's {what} is {tenant}, and {asked} was asked for; leave --run-as-{what} out")
        }
        (asked, tenant) => Ok(tenant.or(asked)),
    };
    let user = of("user", order.run_as_user, destination.run_as_user)?.unwrap_or(destination.default_user);
    let group = of("group", order.run_as_group, destination.run_as_group)?.unwrap_or(user);
    Ok((user, group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(user: Option<i64>, group: Option<i64>) -> Order {
        Order { run_as_user: user, run_as_group: group, ..Order::default() }
    }

    #[test]
    fn files_belong_to_the_user_of_the_rows() {
        let of = |user, group, tenant: (Option<i64>, Option<i64>)| {
            let destination = Destination {
                run_as_user: tenant.0,
                run_as_group: tenant.1,
                default_user: tenant.0.unwrap_or(999),
                ..Destination::default()
            };
            identity(&order(user, group), &destination).map_err(|error| error.to_string())
        };
        assert_eq!(of(None, None, (None, None)), Ok((999, 999)));
        assert_eq!(of(Some(7), None, (None, None)), Ok((7, 7)));
        assert_eq!(of(None, None, (Some(2001), Some(2002))), Ok((2001, 2002)));
        assert_eq!(of(None, Some(5), (Some(2001), None)), Ok((2001, 5)));
        let refused = of(Some(7), None, (Some(2001), None)).expect_err("should be refused");
        assert_eq!(refused, "the tenant's user is 2001, and 7 was asked for; leave --run-as-user out");
    }

    #[test]
    fn the_limit_of_the_tenant_counts_all_files() {
        let file = LocalFile { name: "a".to_owned(), size: 600, path: "a".into() };
        let files = [file.clone(), file];
        let with = |limit| Destination { max_put_bytes: limit, ..Destination::default() };
        assert_eq!(beyond_limit(&with(None), &files), None);
        assert_eq!(beyond_limit(&with(Some(1200)), &files), None);
        let said = beyond_limit(&with(Some(1199)), &files).unwrap_or_default();
        assert!(
            said.starts_with(
                "2 files have 1,200 bytes, and the limit of the tenant for one command is 1,199"
            ),
            "{said}"
        );
    }
}
