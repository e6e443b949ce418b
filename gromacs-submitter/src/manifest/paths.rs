//! Where the files of a row are: on its volume, and in the pods that mount it.

use scavenger_schema::simulation::GromacsToTune;

/// Where the row's volume is mounted.
pub(crate) const MOUNT_PATH: &str = "/data";

/// Folder of a row as seen from the root of the volume, beside its .tpr file.
pub(crate) fn folder(tpr_path: &str, row: i64) -> String {
    let beside = tpr_path.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
    format!("{beside}gromacs-{row}")
}

/// The same in the pods that mount the volume. The inspection makes it.
pub(super) fn working_directory(row: &GromacsToTune) -> String {
    format!("{MOUNT_PATH}/{}", folder(&row.tpr_path, row.id))
}

pub(super) fn tpr_file(row: &GromacsToTune) -> String {
    format!("{MOUNT_PATH}/{}", row.tpr_path)
}
