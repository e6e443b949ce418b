//! Makes the cgroups of a node's pods, and reads and writes their files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use scavenger_cgroups::weight::weight;
use scavenger_kernel_guest::layout::{Group, Node, Pod};

use crate::until;

const ROOT: &str = "/sys/fs/cgroup";

/// What pods need.
const CONTROLLERS: [&str; 4] = ["+cpu", "+memory", "+io", "+pids"];

/// Lets the cgroups of pods have these controllers.
pub fn enable_at_root() -> io::Result<()> {
    enable(Path::new(ROOT))
}

/// A node's pods, whose processes and cgroups end with this value.
pub struct Pods {
    /// The node that they are on.
    pub node: Node,
    groups: Vec<Group>,
}

impl Pods {
    /// Makes everything.
    pub fn make(node: Node, pods: &[Pod]) -> io::Result<Self> {
        enable_at_root()?;
        let groups = node.groups(pods);
        for (place, group) in groups.iter().enumerate() {
            let path = Path::new(ROOT).join(&group.path);
            fs::create_dir(&path)?;
            let is_parent =
                groups[place..].iter().any(|other| other.path.starts_with(&format!("{}/", group.path)));
            if is_parent || place < 3 {
                enable(&path)?;
            }
            for (file, value) in &group.files {
                write(&path.join(file), value)?;
            }
        }
        Ok(Self { node, groups })
    }

    /// The folder of a pod's cgroup.
    pub fn pod(&self, pod: &Pod) -> PathBuf {
        Path::new(ROOT).join(self.node.pod_path(pod))
    }

    /// The folder of its container's.
    pub fn container(&self, pod: &Pod) -> PathBuf {
        Path::new(ROOT).join(self.node.container_path(pod))
    }

    /// Makes a pod idle: it gets what nobody else wants.
    pub fn make_idle(&self, pod: &Pod) -> io::Result<()> {
        write(&self.pod(pod).join("cpu.idle"), "1")
    }

    /// Takes that back. The kernel leaves the weight of 100 then.
    pub fn restore(&self, pod: &Pod) -> io::Result<()> {
        write(&self.pod(pod).join("cpu.idle"), "0")?;
        write(&self.pod(pod).join("cpu.weight"), &weight(pod.cpu).to_string())
    }

    /// Removes a container's cgroup when its processes have ended, as a runtime does.
    pub fn remove_container(&self, pod: &Pod) -> io::Result<()> {
        clear(&self.container(pod))
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        for group in self.groups.iter().rev() {
            if let Err(error) = clear(&Path::new(ROOT).join(&group.path)) {
                eprintln!("cannot remove the cgroup {}: {error}", group.path);
            }
        }
    }
}

/// Ends all processes in a cgroup, and removes it.
fn clear(path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    write(&path.join("cgroup.kill"), "1")?;
    let mut result = Ok(());
    until(30.0, || {
        result = fs::remove_dir(path);
        result.is_ok()
    });
    result
}

/// Lets the groups below have the controllers.
fn enable(path: &Path) -> io::Result<()> {
    CONTROLLERS.iter().try_for_each(|controller| write(&path.join("cgroup.subtree_control"), controller))
}

/// Writes into a file of a cgroup; the error names both.
pub fn write(path: &Path, value: &str) -> io::Result<()> {
    fs::write(path, value)
        .map_err(|error| io::Error::other(format!("{}: cannot write {value}: {error}", path.display())))
}

/// A number in a file of lines `name number`, such as memory.events.
pub fn count(path: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_default()
}
