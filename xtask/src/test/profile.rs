//! What an API server does while the tests run: its own CPU profile, read again and again and added up.

use std::{
    fmt::Write as _,
    fs::File,
    path::PathBuf,
    process::Command,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::cluster::Cluster;

/// One profile lasts so long; the API server allows less than a minute.
const SECONDS: u32 = 30;

/// Parts of the work, and a regular expression over the names of functions. Work counts for each part that has one of its
/// functions on the stack, so parts overlap, and a handler contains what it calls.
const PARTS: [(&str, &str); 19] = [
    ("garbage collection", r"^runtime\.(gcBgMarkWorker|gcAssistAlloc|bgsweep|bgscavenge|gcStart)"),
    ("handler: create", r"endpoints/handlers\..*createHandler"),
    ("handler: patch and apply", r"endpoints/handlers\.PatchResource"),
    ("handler: update", r"endpoints/handlers\.UpdateResource"),
    ("handler: delete", r"endpoints/handlers\.Delete(Resource|Collection)"),
    ("handler: get", r"endpoints/handlers\.(GetResource|getResourceHandler)"),
    ("handler: list", r"endpoints/handlers\.ListResource.*|registry\.\(\*Store\)\.List$"),
    ("handler: watch, with encoding", r"endpoints/handlers\.(\(\*WatchServer\)|serveWatch)"),
    ("admission, all plugins", r"apiserver/pkg/admission.*\.(Admit|Validate)"),
    ("admission policies, with CEL", r"admission/plugin/policy"),
    ("CEL, all that ask", r"cel-go|apiserver/pkg/cel"),
    ("validation of custom resources", r"apiextensions-apiserver/pkg/apiserver/(schema|validation)"),
    ("managed fields", r"structured-merge-diff|managedfields"),
    ("watch cache", r"storage/cacher\.\(\*(Cacher|watchCache|cacheWatcher|threadedStoreIndexer)"),
    ("etcd's client", r"go\.etcd\.io|storage/etcd3"),
    ("OpenAPI", r"openapi"),
    (
        "authentication and authorization",
        r"pkg/(authentication|authorization)/|rbac\.|node\.\(\*NodeAuthorizer",
    ),
    ("TLS and HTTP/2", r"crypto/(tls|internal)|http2"),
    ("JSON", r"encoding/json|json\.v2|sigs\.k8s\.io/json"),
];

/// Collects profiles until it is stopped.
pub(super) struct Profile {
    stop: Sender<()>,
    thread: JoinHandle<Vec<PathBuf>>,
    folder: PathBuf,
}

impl Profile {
    /// Begins with the API server of this cluster.
    pub(super) fn start(cluster: &Cluster, folder: PathBuf) -> Result<Self> {
        crate::cache::remove(&folder)?;
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let access = cluster.access();
        let (stop, stopped) = mpsc::channel();
        let into = folder.clone();
        let thread = std::thread::spawn(move || {
            let mut files = Vec::new();
            while stopped.recv_timeout(Duration::from_millis(10)) == Err(RecvTimeoutError::Timeout) {
                let path = into.join(format!("{:04}.pprof", files.len()));
                let address = format!("/debug/pprof/profile?seconds={SECONDS}");
                let read = File::create(&path)
                    .and_then(|file| access.kubectl(&["get", "--raw", &address]).stdout(file).status());
                match read {
                    Ok(status) if status.success() => files.push(path),
                    // The cluster has ended.
                    _ => break,
                }
            }
            files
        });
        Ok(Self { stop, thread, folder })
    }

    /// Ends, and returns a table for people.
    pub(super) fn stop(self) -> Result<String> {
        drop(self.stop);
        let files = self.thread.join().expect("the thread that reads profiles should not have panicked");
        if files.is_empty() {
            bail!("the API server answered with no profile");
        }
        let sum = self.folder.join("all.pprof");
        pprof(&["-proto", &format!("-output={}", sum.display())], &files)?;
        let mut text = format!(
            "one API server, {} profiles of {SECONDS} s, added up in {}\n\n\
             | part of its work | seconds | share |\n|---|--:|--:|\n",
            files.len(),
            sum.display()
        );
        for (part, pattern) in PARTS {
            let every = ["-top", "-unit=s", "-nodecount=1000000", "-nodefraction=0"];
            let top =
                pprof(&[&every[..], &[&format!("-focus={pattern}")]].concat(), std::slice::from_ref(&sum))?;
            let (seconds, all) = seconds(&top).context("`go tool pprof` printed no sum")?;
            let _ = writeln!(text, "| {part} | {seconds:.1} | {:.1}% |", 100.0 * seconds / all.max(0.01));
        }
        Ok(text)
    }
}

/// What `go tool pprof` prints of these profiles.
fn pprof(arguments: &[&str], files: &[PathBuf]) -> Result<String> {
    let mut pprof = Command::new("go");
    let output = pprof.args(["tool", "pprof"]).args(arguments).args(files).output();
    let output = output.context("cannot run `go tool pprof`")?;
    if !output.status.success() {
        bail!("`go tool pprof` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Seconds in focus and in all, from `Showing nodes accounting for 1.2s, 3.4% of 56s total`.
fn seconds(top: &str) -> Option<(f64, f64)> {
    let number = |text: &str| text.trim().trim_end_matches('s').parse::<f64>().ok();
    let line = top.lines().find_map(|line| line.strip_prefix("Showing nodes accounting for "))?;
    let (focus, rest) = line.split_once(',')?;
    Some((number(focus)?, number(rest.split_once(" of ")?.1.split_once(" total")?.0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_read_as_pprof_prints_them() {
        let top = "Type: cpu\nActive filters:\n   focus=x\nShowing nodes accounting for 1.28s, 4.10% of 31.20s total\n";
        assert_eq!(seconds(top), Some((1.28, 31.2)));
        let none = "Showing nodes accounting for 0, 0% of 31.20s total\n";
        assert_eq!(seconds(none), Some((0.0, 31.2)));
        assert_eq!(seconds("nothing"), None);
    }
}
