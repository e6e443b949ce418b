//! Whose fault a failure is, by what the kubelet, a registry, a container runtime, kube-scheduler or the API server says of it.
//! The words by which that is recognised stand in one table, [`TABLE`].

pub(crate) mod kubelet;
pub mod refusal;
pub(crate) mod scheduler;
pub(crate) mod supervisor;
#[cfg(test)]
mod tests;

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Of what the ScavengerJob asks for: another attempt would end in the same way.
    Own,
    /// Of the node: another one may do.
    Node,
    /// Of the registry, the network, or those who run the cluster: it may pass.
    Cluster,
    /// Nobody's: something is used up, or not there yet.
    Passing,
}

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A quota is used up: to be tried again later.
    Quota,
    /// The namespace is being terminated: nothing of it can start until there is another of that name.
    Terminating,
    /// The service account does not exist. What the spec refers to is looked up before a start, and there it is judged.
    Reference,
    /// Admission refuses the object: Pod Security, a LimitRange, a quota that wants a field, an admission policy or webhook, an
    /// invalid field. Neither the reason nor the words say whether the ScavengerJob is at fault or the rule.
    Denied,
    /// It may pass, and is not the ScavengerJob's fault.
    Passing,
}

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    /// The kubelet of an image, quoting the registry or the network. In lower case.
    Pull,
    /// The container runtime of a container that it cannot create. In lower case.
    Create,
    /// The container runtime of a container that it cannot start. In lower case.
    Start,
    /// The kubelet of a pod that it evicted.
    Eviction,
    /// kube-scheduler of a pod that it cannot place.
    Scheduler,
    /// kube-scheduler of the nodes on which it cannot place a pod, where the planner judges the same.
    SchedulerOfNode,
    /// The API server of an object that it does not take.
    ApiServer,
    /// The API server of pods that a LimitRange refuses.
    LimitRange,
}

/// What it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    RegistryInTrouble,
    /// The registry does not give the image; many do not say whether there is one.
    NotGiven,
    /// There is no such image, or none that is signed as the node wants it.
    NoSuchImage,
    /// The image is not made for processors of this kind.
    OtherPlatform,
    /// The container must not run so.
    BadConfig,
    /// Its command does not exist, or cannot be executed, wherever it is tried.
    BadCommand,
    NodeInTrouble,
    /// Its main container used more than it may itself.
    OwnLimit,
    /// All containers of a pod together used more than they may.
    PodLimit,
    NodeOutOfMemory,
    /// A claim has no volume.
    ClaimUnbound,
    /// A node has not enough left.
    CapacityShort,
    /// A pod may not go to a node: by taints, node affinity, or that of its volumes.
    NotAdmitted,
    /// Pods request too little, as those do whose capacity is counted by use.
    SmallRequests,
    Refused(Refusal),
}

impl Meaning {
    fn fault(self) -> Fault {
        match self {
            Self::NotGiven | Self::NoSuchImage | Self::BadConfig | Self::BadCommand | Self::OwnLimit => {
                Fault::Own
            }
            Self::NodeInTrouble | Self::OtherPlatform | Self::NodeOutOfMemory | Self::PodLimit => Fault::Node,
            // Whether the ScavengerJob is at fault or the rule nobody knows; time tells.
            Self::RegistryInTrouble | Self::SmallRequests | Self::Refused(Refusal::Denied) => Fault::Cluster,
            Self::ClaimUnbound | Self::CapacityShort | Self::NotAdmitted | Self::Refused(_) => Fault::Passing,
        }
    }
}

/// How an admission webhook refuses an object.
const BY_WEBHOOK: &str = " denied the request";

/// Words, and what it means if one of them is said. Users choose names of objects, images and programs: so words that could be
/// such a name, or a part of one, have spaces in them or around them.
struct Row {
    speaker: Speaker,
    /// One of these must be said, too; none if empty.
    with: &'static [&'static str],
    words: &'static [&'static str],
    meaning: Meaning,
}

const fn row(speaker: Speaker, words: &'static [&'static str], meaning: Meaning) -> Row {
    Row { speaker, with: &[], words, meaning }
}

/// An image that is made for processors of another kind, as containerd and CRI-O say it.
const OTHER_PLATFORM: [&str; 3] = [
    "no match for platform in manifest",
    "no image found in manifest list for architecture",
    "no image found in image index for architecture",
];

/// Of the rows of a speaker the first that matches decides. What no row knows is the cluster's fault, for trying again is cheap.
static TABLE: [Row; 26] = [
    // A registry in trouble may say both: that it is, and that it knows nobody. How containerd, CRI-O and the network say that a
    // registry does not answer, or not now.
    row(
        Speaker::Pull,
        &[
            "because the registry is unavailable",
            "connection refused",
            "connection reset",
            "no route to host",
            "network is unreachable",
            "i/o timeout",
            "timeout exceeded",
            "deadline exceeded",
            "handshake timeout",
            "no such host",
            "server misbehaving",
            "temporary failure in name resolution",
            "unexpected eof",
            ": eof",
            " tls: ",
            " x509: ",
            " toomanyrequests: ",
            "too many requests",
            "rate limit",
            "500 internal server error",
            "502 bad gateway",
            "503 service",
            "504 gateway",
        ],
        Meaning::RegistryInTrouble,
    ),
    // The last: no registry is configured there.
    row(Speaker::Pull, &["no space left on device", "no resolve hosts"], Meaning::NodeInTrouble),
    // The registry knows the image and gave its manifest: what is wrong with a layer is no fault of who names the image.
    row(
        Speaker::Pull,
        &["failed to copy: ", "fetching blob: ", "reading blob ", "writing blob: "],
        Meaning::RegistryInTrouble,
    ),
    row(
        Speaker::Pull,
        &[
            "repository does not exist",
            "pull access denied",
            " insufficient_scope: ",
            "requested access to the resource is denied",
            "401 unauthorized",
            " unauthorized: ",
            "authentication required",
            "403 forbidden",
        ],
        Meaning::NotGiven,
    ),
    row(Speaker::Pull, &OTHER_PLATFORM, Meaning::OtherPlatform),
    // containerd says of layers, snapshots and its own files, too, that they are "not found".
    Row { with: &["failed to resolve"], ..row(Speaker::Pull, &[": not found"], Meaning::NoSuchImage) },
    row(
        Speaker::Pull,
        &[
            "manifest unknown",
            "name unknown",
            "invalid reference format",
            "because the signature validation failed",
        ],
        Meaning::NoSuchImage,
    ),
    row(
        Speaker::Create,
        &[
            "no command specified",
            // Of memory, as CRI-O says it.
            " too low; should be at least ",
        ],
        Meaning::BadConfig,
    ),
    // As runc says it of the container's own program. Of a hook, of a mount and of programs of the node it says the same behind
    // other words.
    Row {
        with: &["container process: exec: ", "container init: exec: "],
        ..row(
            Speaker::Start,
            &[
                "executable file not found",
                "no such file or directory",
                "permission denied",
                "is a directory",
            ],
            Meaning::BadCommand,
        )
    },
    // As crun does.
    Row { with: &["executable file `"], ..row(Speaker::Start, &["` not found"], Meaning::BadCommand) },
    Row {
        with: &["the path `"],
        ..row(
            Speaker::Start,
            &["` exists but it is not executable", "` is not a regular file"],
            Meaning::BadCommand,
        )
    },
    // Its working directory, which who runs there must not enter.
    Row { with: &["chdir to cwd ("], ..row(Speaker::Start, &["permission denied"], Meaning::BadCommand) },
    row(
        Speaker::Start,
        &["exec format error", "container init was oom-killed (memory limit too low?)"],
        Meaning::BadCommand,
    ),
    row(Speaker::Start, &OTHER_PLATFORM, Meaning::BadCommand),
    // Otherwise the node was short of something, or what was injected used too much: a ScavengerJob has no `emptyDir` of its
    // own.
    row(Speaker::Eviction, &["Container main exceeded its local ephemeral storage limit"], Meaning::OwnLimit),
    row(Speaker::Eviction, &["Pod ephemeral local storage usage exceeds the total limit"], Meaning::PodLimit),
    row(Speaker::Eviction, &["low on resource: memory"], Meaning::NodeOutOfMemory),
    // Unless the volume is made where the pod goes.
    row(Speaker::Scheduler, &["unbound immediate PersistentVolumeClaim"], Meaning::ClaimUnbound),
    row(Speaker::SchedulerOfNode, &["Insufficient ", "Too many pods"], Meaning::CapacityShort),
    row(
        Speaker::SchedulerOfNode,
        &[
            "node(s) had untolerated taint",
            "node(s) didn't match Pod's node affinity/selector",
            "node(s) were unschedulable",
            "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            "node(s) didn't match PersistentVolume's node affinity",
            // The same, until Kubernetes 1.32.
            "node(s) had volume node affinity conflict",
        ],
        Meaning::NotAdmitted,
    ),
    row(
        Speaker::LimitRange,
        &["minimum cpu usage per ", "minimum memory usage per ", " max limit to request ratio per "],
        Meaning::SmallRequests,
    ),
    row(Speaker::ApiServer, &["exceeded quota"], Meaning::Refused(Refusal::Quota)),
    row(Speaker::ApiServer, &["being terminated"], Meaning::Refused(Refusal::Terminating)),
    row(Speaker::ApiServer, &["error looking up service account"], Meaning::Refused(Refusal::Reference)),
    // What the API server may say with 403 although another day it would take the very same object. Our own policies are among
    // it: they refuse what the operator and the Job controller make only where these have other names than the policies know,
    // which is for admins to mend, and must never fail what waits.
    row(
        Speaker::ApiServer,
        &[
            "ValidatingAdmissionPolicy 'scavenger-",
            "cannot create resource",
            "no PriorityClass",
            "status unknown for quota",
            "not yet ready to handle request",
            "failed calling webhook",
        ],
        Meaning::Refused(Refusal::Passing),
    ),
    row(
        Speaker::ApiServer,
        &[" is forbidden: ", " is invalid: ", BY_WEBHOOK],
        Meaning::Refused(Refusal::Denied),
    ),
];

/// What it means that a speaker says this; none if the table does not know it.
fn meaning(speaker: Speaker, message: &str) -> Option<Meaning> {
    let says = |row: &&Row| {
        let is_said = |words: &[&str]| words.iter().any(|words| message.contains(words));
        row.speaker == speaker && (row.with.is_empty() || is_said(row.with)) && is_said(row.words)
    };
    TABLE.iter().find(says).map(|row| row.meaning)
}
