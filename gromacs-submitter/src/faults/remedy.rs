//! What a person does about an end that no other try would mend: one clause that names the file, the node or the image.

use scavenger_schema::simulation::GromacsToTune;

use super::Meaning;
use crate::manifest;

/// What to do; none where the words of GROMACS alone are known. `made_a_step`: the simulation had begun.
#[must_use]
pub fn remedy(meaning: Meaning, made_a_step: bool, row: &GromacsToTune) -> Option<String> {
    let (id, file, claim) = (row.id, &row.tpr_path, &row.persistent_volume_claim);
    let folder = simulation_folder(row);
    let image = row.pinned_image.as_ref().or(row.image.as_ref()).map_or("its image", String::as_str);
    let another_image = format!("name another image (gromacs-submitter edit {id} --image), and retry");
    Some(match meaning {
        Meaning::DamagedCheckpoint => format!(
            "put a checkpoint that it can read at {folder}/state.cpt, or move the checkpoints, logs and results of that \
             simulation away to begin it again, and retry"
        ),
        Meaning::OlderCheckpoint => format!(
            "put it back as {folder}/state.cpt, or move the checkpoints, logs and results of that simulation away to begin \
             it again, and retry"
        ),
        Meaning::UnreadableCheckpoint => {
            format!("let the user of the row read and write {folder}/state.cpt (chown, chmod), and retry")
        }
        Meaning::ChangedOutput => format!(
            "put the files back into {folder}, or set append to false so that mdrun writes new parts (gromacs-submitter edit \
             {id} --append false), and retry"
        ),
        Meaning::NewerFile => format!(
            "the image's GROMACS is older than the one that wrote the file: name a newer image than {image} (gromacs-submitter \
             edit {id} --image), or write {file} again with the image's gmx grompp, and retry"
        ),
        Meaning::NoThreadMpi => {
            format!("the gmx of {image} is built without thread-MPI and does not say so: {another_image}")
        }
        Meaning::NoFile => "put the file that it names there, and retry".to_owned(),
        Meaning::Table => format!(
            "name the table with -tableb in mdrun_options (gromacs-submitter edit {id} --mdrun-options), and retry"
        ),
        Meaning::Unstable => unstable(made_a_step, row),
        Meaning::InfiniteForce => format!(
            "two atoms of {file} overlap: move them apart in its coordinates, or use soft-core potentials{}",
            and_again(row)
        ),
        Meaning::Held => format!("end the mdrun that holds {folder}/md.log, and retry"),
        Meaning::NoLocks | Meaning::Away => {
            format!("ask an admin to look at the volume of claim {claim}, then retry")
        }
        Meaning::Full => format!("free some space on the volume of claim {claim}, and retry"),
        Meaning::Registry => format!("ask an admin why the registry of {image} does not answer, then retry"),
        Meaning::ImageNotGiven => {
            format!("ask an admin for a login to the registry of {image}, then retry; or {another_image}")
        }
        Meaning::NoImage => format!("{image} is gone from its registry: {another_image}"),
        Meaning::Processor => format!(
            "the gmx of {image} is built for other processors: name an image for these (gromacs-submitter edit {id} --image), \
             or nodes that have what it needs (gromacs-submitter edit {id} --node-label), and retry"
        ),
        Meaning::Gpu => format!(
            "ask an admin to look at the GPUs of the node, or run without one (gromacs-submitter edit {id} --max-gpus 0), and \
             retry"
        ),
        Meaning::Crash | Meaning::Input => format!(
            "look for the cause in its output (gromacs-submitter logs {id} --mdrun), mend {file} or {}, and retry",
            another_image.trim_end_matches(", and retry")
        ),
        Meaning::Unknown
        | Meaning::Refuses(_)
        | Meaning::NoRight
        | Meaning::Denied
        | Meaning::NoRules
        | Meaning::Quota => return None,
    })
}

/// The folder of a row, or of each of its simulations, on the volume.
fn simulation_folder(row: &GromacsToTune) -> String {
    let folder = manifest::folder(&row.tpr_path, row.id);
    if row.is_multidir() { format!("{folder}/SIMULATION") } else { folder }
}

/// How the row computes what was mended: a file that it has begun to compute with is not exchanged under it.
fn and_again(row: &GromacsToTune) -> String {
    if row.grompp_options.is_empty() {
        format!(", write {} again, and retry", row.tpr_path)
    } else {
        ", and retry".to_owned()
    }
}

fn unstable(made_a_step: bool, row: &GromacsToTune) -> String {
    let (id, file) = (row.id, &row.tpr_path);
    if row.is_minimisation() {
        return format!(
            "the forces in {file} are too large even to be minimised: move atoms that overlap apart in its coordinates{}",
            and_again(row)
        );
    }
    if made_a_step {
        return format!(
            "the simulation of {file} became unstable: see its log (gromacs-submitter logs {id} --mdrun), make a file with a \
             shorter time step or a longer equilibration, and add that as a new row"
        );
    }
    let coordinates = row.grompp_options.windows(2).find(|pair| pair[0] == "-c").map(|pair| pair[1].as_str());
    match coordinates {
        Some(coordinates) => format!(
            "the forces in {coordinates} are too large at the start; minimise its energy, or equilibrate it with a shorter time \
             step, in a row before this one, name what that computes with -c (gromacs-submitter edit {id} --grompp), and retry"
        ),
        None => format!(
            "the forces in {file} are too large at the start; minimise the energy, or equilibrate with a shorter time step, and \
             add the result"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sqlx::types::Json;

    use super::*;
    use crate::fixtures::row;

    /// Every meaning whose fault may end a row says what to do, and with what.
    #[test]
    fn what_to_do_names_a_file_a_volume_or_an_image() {
        let mut row = row();
        row.pinned_image = Some("registry.example/gromacs@sha256:0123".to_owned());
        for (meaning, named) in [
            (Meaning::DamagedCheckpoint, "water/gromacs-7/state.cpt"),
            (Meaning::OlderCheckpoint, "water/gromacs-7/state.cpt"),
            (Meaning::UnreadableCheckpoint, "water/gromacs-7/state.cpt"),
            (Meaning::ChangedOutput, "water/gromacs-7"),
            (Meaning::NewerFile, "water/topol.tpr"),
            (Meaning::NoThreadMpi, "registry.example/gromacs@sha256:0123"),
            (Meaning::Table, "--mdrun-options"),
            (Meaning::Unstable, "water/topol.tpr"),
            (Meaning::InfiniteForce, "water/topol.tpr"),
            (Meaning::Held, "water/gromacs-7/md.log"),
            (Meaning::Away, "claim data"),
            (Meaning::NoLocks, "claim data"),
            (Meaning::Full, "claim data"),
            (Meaning::Registry, "registry.example/gromacs@sha256:0123"),
            (Meaning::ImageNotGiven, "registry.example/gromacs@sha256:0123"),
            (Meaning::NoImage, "registry.example/gromacs@sha256:0123"),
            (Meaning::Processor, "registry.example/gromacs@sha256:0123"),
            (Meaning::Gpu, "--max-gpus 0"),
            (Meaning::Crash, "water/topol.tpr"),
            (Meaning::Input, "water/topol.tpr"),
        ] {
            for made_a_step in [false, true] {
                let said = remedy(meaning, made_a_step, &row).unwrap_or_default();
                assert!(said.contains(named), "{meaning:?}: {said}");
                assert!(said.contains("retry") || said.contains("add "), "{meaning:?}: {said}");
            }
        }
    }

    #[test]
    fn what_to_do_about_forces_fits_what_the_row_is() {
        let plain = row();
        let words = |text: &str| text.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>();
        let made = GromacsToTune {
            grompp_options: words("-f nvt.mdp -c solvated.gro -p topol.top"),
            ..plain.clone()
        };
        let steep = BTreeMap::from([("integrator".to_owned(), "steep".to_owned())]);
        let minimisation = GromacsToTune { inspected: Some(Json(steep)), ..plain.clone() };
        let advice = |row: &GromacsToTune, made_a_step: bool| {
            remedy(Meaning::Unstable, made_a_step, row).unwrap_or_default()
        };
        assert!(advice(&plain, false).contains("minimise the energy, or equilibrate"), "{plain:?}");
        assert!(advice(&made, false).starts_with("the forces in solvated.gro are too large at the start"));
        assert!(advice(&made, false).contains("gromacs-submitter edit 7 --grompp"));
        for row in [
            &minimisation,
            &GromacsToTune { grompp_options: made.grompp_options.clone(), ..minimisation.clone() },
        ] {
            let said = advice(row, true);
            assert!(
                said.contains("move atoms that overlap apart") && !said.contains("minimise the energy"),
                "{said}"
            );
        }
        assert!(
            advice(&plain, true).contains("add that as a new row"),
            "the row keeps what it computes with"
        );
    }
}
