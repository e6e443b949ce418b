//! Where the cgroup of each pod is.
//!
//! | | cgroup driver `cgroupfs` | cgroup driver `systemd` |
//! |---|---|---|
//! | root | `kubepods` | `kubepods.slice` |
//! | Guaranteed | `podUID` | `kubepods-podUID.slice` |
//! | Burstable | `burstable/podUID` | `kubepods-burstable.slice/kubepods-burstable-podUID.slice` |
//! | BestEffort | `besteffort/podUID` | `kubepods-besteffort.slice/kubepods-besteffort-podUID.slice` |
//!
//! For systemd each `-` in a name is a level, so the kubelet writes UIDs with `_` there. With `--cgroup-root` the names of slices
//! begin with the root's name. So only the last part of a name is read here. Containers are below pods, under names that the
//! runtime chooses and nothing here depends on.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// Where the cpu controller is mounted: below its name with cgroup v1.
const CONTROLLERS: [&str; 3] = ["", "cpu", "cpu,cpuacct"];

/// What the kubelet calls the root of all pods.
const ROOTS: [&str; 2] = ["kubepods.slice", "kubepods"];

/// How cgroups are named: the kubelet's `cgroupDriver`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// `kubepods/burstable/podUID`.
    Cgroupfs,
    /// `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice`.
    Systemd,
}

/// A pod's class of quality of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Every container's limits are its requests.
    Guaranteed,
    /// Something is requested or limited.
    Burstable,
    /// Nothing is.
    BestEffort,
}

impl Driver {
    /// Path of a class below the cgroup in which all pods are. That of Guaranteed pods is that of all pods.
    #[must_use]
    pub fn class(self, class: Class) -> String {
        let name = match class {
            Class::Guaranteed => None,
            Class::Burstable => Some("burstable"),
            Class::BestEffort => Some("besteffort"),
        };
        match (self, name) {
            (Self::Cgroupfs, None) => "kubepods".to_owned(),
            (Self::Cgroupfs, Some(name)) => format!("kubepods/{name}"),
            (Self::Systemd, None) => "kubepods.slice".to_owned(),
            (Self::Systemd, Some(name)) => format!("kubepods.slice/kubepods-{name}.slice"),
        }
    }

    /// Path of a pod.
    #[must_use]
    pub fn pod(self, class: Class, uid: &str) -> String {
        let parent = self.class(class);
        match self {
            Self::Cgroupfs => format!("{parent}/pod{uid}"),
            Self::Systemd => {
                let class = parent.rsplit('/').next().unwrap_or_default().trim_end_matches(".slice");
                // A dash in the name of a slice means that it is inside of another one.
                format!("{parent}/{class}-pod{}.slice", uid.replace('-', "_"))
            }
        }
    }
}

/// The cgroups of all pods on a node.
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// The pods of a QoS class are below.
    Class,
    Pod(String),
}

impl Tree {
    /// The tree with this root, which is `kubepods` or `kubepods.slice`.
    #[must_use]
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Finds the tree below the folder in which cgroups are mounted, which is `/sys/fs/cgroup`. A node whose driver was changed
    /// can have two trees. One of them is empty.
    #[must_use]
    pub fn find(mounts: &Path) -> Option<Self> {
        let paths = CONTROLLERS.iter().flat_map(|at| ROOTS.map(|root| mounts.join(at).join(root)));
        let mut trees: Vec<Self> = paths.filter(|path| path.is_dir()).map(Self::at).collect();
        trees.sort_by_key(|tree| tree.pods().is_ok_and(|pods| pods.is_empty()));
        trees.into_iter().next()
    }

    /// The folder of each pod's cgroup by the UID of the pod.
    ///
    /// # Errors
    /// If the tree cannot be read.
    pub fn pods(&self) -> io::Result<BTreeMap<String, PathBuf>> {
        let mut pods = BTreeMap::new();
        let mut classes = Vec::new();
        collect(&self.root, &mut pods, Some(&mut classes))?;
        for class in classes {
            match collect(&class, &mut pods, None) {
                // The kubelet makes its folders again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => read?,
            }
        }
        Ok(pods)
    }
}

fn collect(
    folder: &Path,
    pods: &mut BTreeMap<String, PathBuf>,
    mut classes: Option<&mut Vec<PathBuf>>,
) -> io::Result<()> {
    let about = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(about)? {
        let entry = entry.map_err(about)?;
        let kind = entry.file_name().to_str().and_then(kind);
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        match (kind, &mut classes) {
            (Some(Kind::Pod(uid)), _) => {
                pods.insert(uid, entry.path());
            }
            (Some(Kind::Class), Some(classes)) => classes.push(entry.path()),
            _ => {}
        }
    }
    Ok(())
}

fn kind(name: &str) -> Option<Kind> {
    let slice = name.strip_suffix(".slice");
    let last = slice.map_or(Some(name), |slice| slice.rsplit('-').next())?;
    if matches!(last, "burstable" | "besteffort") {
        return Some(Kind::Class);
    }
    let uid = last.strip_prefix("pod")?;
    let is_uid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let uid = Some(uid).filter(|uid| !uid.is_empty() && uid.bytes().all(is_uid))?;
    Some(Kind::Pod(if slice.is_some() { uid.replace('_', "-") } else { uid.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "6ae80567-7e1b-4e3b-9c9c-3f2ad7b4c0de";

    #[test]
    fn names_of_both_drivers() {
        let pod = |uid: &str| Some(Kind::Pod(uid.to_owned()));
        let slice = UID.replace('-', "_");
        for (name, expected) in [
            ("burstable", Some(Kind::Class)),
            ("kubepods-besteffort.slice", Some(Kind::Class)),
            ("kubelet-kubepods-burstable.slice", Some(Kind::Class)),
            (&format!("pod{UID}"), pod(UID)),
            (&format!("kubepods-pod{slice}.slice"), pod(UID)),
            (&format!("kubepods-burstable-pod{slice}.slice"), pod(UID)),
            (&format!("kubelet-kubepods-besteffort-pod{slice}.slice"), pod(UID)),
            // A pod of a file has a hash.
            ("pod0123456789abcdef0123456789abcdef", pod("0123456789abcdef0123456789abcdef")),
            ("pod", None),
            ("pod..", None),
            ("kubepods-burstable-pod.slice", None),
            ("cri-containerd-0123.scope", None),
            ("crio-0123", None),
            ("cpu.weight", None),
            ("", None),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn what_the_kubelet_names_is_found_by_its_uid() {
        for driver in [Driver::Cgroupfs, Driver::Systemd] {
            let mounts = tempfile::tempdir().unwrap();
            let mut expected = BTreeMap::new();
            for (number, class) in
                [Class::Guaranteed, Class::Burstable, Class::BestEffort].into_iter().enumerate()
            {
                let uid = format!("{number}{UID}");
                let path = mounts.path().join(driver.pod(class, &uid));
                fs::create_dir_all(&path).unwrap();
                assert_eq!(path.parent(), Some(mounts.path().join(driver.class(class)).as_path()));
                expected.insert(uid, path);
            }
            assert_eq!(Tree::find(mounts.path()).unwrap().pods().unwrap(), expected, "{driver:?}");
        }
    }

    #[test]
    fn the_tree_with_pods_is_found_in_each_layout() {
        for layout in ["kubepods", "kubepods.slice", "cpu/kubepods", "cpu,cpuacct/kubepods.slice"] {
            let mounts = tempfile::tempdir().unwrap();
            assert!(Tree::find(mounts.path()).is_none());
            // What the other driver left.
            fs::create_dir_all(mounts.path().join("cpu/kubepods.slice")).unwrap();
            let root = mounts.path().join(layout);
            let expected = root.join("burstable/podb");
            fs::create_dir_all(&expected).unwrap();
            fs::write(root.join("podfile"), "").unwrap();
            fs::create_dir_all(root.join("burstable/besteffort/podtoo-deep")).unwrap();
            let pods = Tree::find(mounts.path()).unwrap().pods().unwrap();
            assert_eq!(pods, BTreeMap::from([("b".to_owned(), expected)]), "{layout}");
        }
        let error = Tree::at("/no/such/tree".into()).pods().unwrap_err();
        assert!(error.to_string().starts_with("/no/such/tree: "), "{error}");
    }
}
