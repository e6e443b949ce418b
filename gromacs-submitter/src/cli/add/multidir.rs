//! `add --multidir`: one row of several simulations.

use std::path::Path;

use super::{Entry, files};
use crate::config::AddOptions;
use crate::multidir;
use crate::store::NewRow;

/// The row of the one path that the options name. What the folders may be called, the database says.
pub(super) fn entry(options: &AddOptions, defaults: NewRow) -> anyhow::Result<Entry> {
    let [path] = options.tpr_path.as_slice() else {
        anyhow::bail!(
            "--multidir is about one row: name one PATH, the file as each folder holds it, before --multidir; {} were named",
            options.tpr_path.len()
        );
    };
    let row = match &options.root {
        None => files::literal(path.clone()).and_then(|tpr_path| {
            let folders = options.multidir.iter().cloned().map(files::literal).collect::<Result<_, _>>()?;
            Ok((tpr_path, folders))
        }),
        Some(root) => on_volume(root, path, defaults.checkpoint_path.as_deref(), &options.multidir)?,
    };
    let row = row.map(|(tpr_path, folders)| NewRow { tpr_path, multidir: Some(folders), ..defaults });
    let tpr_path = row.as_ref().map_or_else(|_| path.clone(), |row| row.tpr_path.clone());
    Ok(Entry { line: None, values: None, tpr_path, row })
}

/// Path of the row and its folders, each of which holds the file, and the checkpoint that it starts from.
type Found = Result<(String, Vec<String>), String>;

fn on_volume(root: &Path, path: &str, checkpoint: Option<&str>, folders: &[String]) -> anyhow::Result<Found> {
    let (beside, file) = split(path);
    // Where the volume is mounted here is no part of what is stored.
    let inside = files::relative(root, beside)?;
    let inside = match inside {
        Ok(inside) => inside,
        Err(why) => return Ok(Err(format!("{path}: {why}"))),
    };
    let mut found = Vec::new();
    for folder in folders {
        let named = [inside.as_str(), folder.as_str(), file].into_iter().filter(|part| !part.is_empty());
        let wanted = named.collect::<Vec<_>>().join("/");
        for (named, file_on_volume) in files::expand(root, &[wanted])? {
            let file_on_volume = match file_on_volume {
                Ok(file_on_volume) => file_on_volume,
                Err(why) => return Ok(Err(format!("--multidir {folder}: {named}: {why}"))),
            };
            let (holder, _) = split(&file_on_volume);
            let name = holder.strip_prefix(&inside).unwrap_or(holder).trim_start_matches('/');
            found.push(name.to_owned());
        }
    }
    if let Some(checkpoint) = checkpoint {
        for (folder, wanted) in found.iter().zip(multidir::files(checkpoint, &found)) {
            if let Err(why) = files::one(root, &wanted) {
                return Ok(Err(format!("--checkpoint names no file in the folder {folder}: {why}")));
            }
        }
    }
    let tpr_path = if inside.is_empty() { file.to_owned() } else { format!("{inside}/{file}") };
    Ok(Ok((tpr_path, found)))
}

/// Folder and name of a path.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn volume() -> tempfile::TempDir {
        let volume = tempfile::tempdir().expect("should make a folder");
        for file in [
            "ens/sim0/topol.tpr",
            "ens/sim0/old.cpt",
            "ens/sim1/topol.tpr",
            "ens/a/b/topol.tpr",
            "ens/none/x",
        ] {
            let path = volume.path().join(file);
            fs::create_dir_all(path.parent().expect("should be inside")).expect("should make a folder");
            fs::write(path, "x").expect("should write a file");
        }
        volume
    }

    fn look(path: &str, checkpoint: Option<&str>, folders: &[&str]) -> Found {
        let volume = volume();
        let folders: Vec<String> = folders.iter().map(|folder| (*folder).to_owned()).collect();
        let path = path.replace("ROOT", volume.path().to_str().expect("should be text"));
        on_volume(volume.path(), &path, checkpoint, &folders).expect("should read the folder")
    }

    #[test]
    fn each_folder_holds_the_file() {
        let both = Ok(("ens/topol.tpr".to_owned(), vec!["sim0".to_owned(), "sim1".to_owned()]));
        assert_eq!(look("ens/topol.tpr", None, &["sim0", "sim1"]), both);
        assert_eq!(look("ens/topol.tpr", None, &["sim*"]), both, "a pattern");
        assert_eq!(look("ROOT/ens/topol.tpr", None, &["sim?"]), both, "an absolute path");
        assert_eq!(look("./ens/topol.tpr", None, &["sim?"]), both);
        let nested = Ok(("topol.tpr".to_owned(), vec!["ens/a/b".to_owned(), "ens/sim0".to_owned()]));
        assert_eq!(look("topol.tpr", None, &["ens/a/b", "ens/sim0"]), nested, "from the root of the volume");
    }

    #[test]
    fn what_is_missing_is_named() {
        for (path, checkpoint, folders, words) in [
            (
                "ens/topol.tpr",
                None,
                ["sim0", "none"],
                "--multidir none: ens/none/topol.tpr: there is no such file",
            ),
            ("ens/topol.tpr", None, ["sim0", "../ens/sim1"], "must not hold '..'"),
            ("../topol.tpr", None, ["sim0", "sim1"], "must not hold '..'"),
            ("/else/topol.tpr", None, ["sim0", "sim1"], "it is not inside --root"),
            ("ens/topol.tpr", None, ["sim9*", "sim1"], "no file in"),
            (
                "ens/topol.tpr",
                Some("ens/old.cpt"),
                ["sim0", "sim1"],
                "--checkpoint names no file in the folder sim1: ens/sim1/old.cpt: there is no such file",
            ),
        ] {
            let why = look(path, checkpoint, &folders).expect_err(words);
            assert!(why.contains(words), "{why}");
        }
        assert!(look("ens/topol.tpr", Some("ens/old.cpt"), &["sim0"]).is_ok());
    }
}
