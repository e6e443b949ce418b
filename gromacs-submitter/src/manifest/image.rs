//! The image of a row, and its digest.

use scavenger_schema::simulation::GromacsToTune;

use super::ManifestSettings;

/// The image as the row, its tenant or the submitter names it.
#[must_use]
pub fn requested_image(row: &GromacsToTune, settings: &ManifestSettings) -> String {
    row.image.clone().unwrap_or_else(|| settings.gromacs_image.clone())
}

/// What ran the inspection: by its digest, if the node says so for the image that was `requested`, and by its name
/// otherwise. An image that was brought to the node by hand has a digest that no registry knows. Its name still keeps the
/// row's simulation from going on in another image once the tenant or the submitter names one.
#[must_use]
pub fn pinned_image(requested: &str, image_id: Option<&str>) -> String {
    image_id.and_then(|image_id| by_digest(requested, image_id)).unwrap_or_else(|| requested.to_owned())
}

fn by_digest(requested: &str, image_id: &str) -> Option<String> {
    // docker.io and its folder library may be left out of a name.
    fn whole(repository: &str) -> String {
        match repository.split_once('/') {
            None => format!("docker.io/library/{repository}"),
            Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => repository.to_owned(),
            Some(_) => format!("docker.io/{repository}"),
        }
    }
    let (repository, digest) = image_id.trim_start_matches("docker-pullable://").split_once('@')?;
    let (without_digest, _) = requested.split_once('@').unwrap_or((requested, ""));
    // A colon behind the last slash begins a tag, one before it a port.
    let folder = without_digest.rfind('/').map_or(0, |slash| slash + 1);
    let name =
        without_digest[folder..].find(':').map_or(without_digest, |colon| &without_digest[..folder + colon]);
    (digest.starts_with("sha256:") && whole(repository) == whole(name)).then(|| format!("{name}@{digest}"))
}
