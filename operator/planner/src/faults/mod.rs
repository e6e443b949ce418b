//! Whose fault a failure is, by what the kubelet, a registry, a container runtime, kube-scheduler or the API server says of it.
//! The words by which that is recognised stand in one table, [`TABLE`].

pub(crate) mod kubelet;
pub mod refusal;
pub(crate) mod scheduler;
pub(crate) mod supervisor;

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
    /// The kubelet of what a container is made from. In lower case.
    Config,
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
    NoSuchImage,
    ApiServerInTrouble,
    /// The container must not run so.
    BadConfig,
    /// Its command does not exist, or cannot be executed.
    BadCommand,
    NodeInTrouble,
    /// It used more than it may itself.
    OwnLimit,
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
            Self::NodeInTrouble | Self::NodeOutOfMemory => Fault::Node,
            // Whether the ScavengerJob is at fault or the rule nobody knows; time tells.
            Self::RegistryInTrouble
            | Self::ApiServerInTrouble
            | Self::SmallRequests
            | Self::Refused(Refusal::Denied) => Fault::Cluster,
            Self::ClaimUnbound | Self::CapacityShort | Self::NotAdmitted | Self::Refused(_) => Fault::Passing,
        }
    }
}

/// How an admission webhook refuses an object.
const BY_WEBHOOK: &str = " denied the request";

/// Words, and what it means if one of them is said.
struct Row {
    speaker: Speaker,
    /// What must be said, too.
    with: &'static str,
    words: &'static [&'static str],
    meaning: Meaning,
}

const fn row(speaker: Speaker, words: &'static [&'static str], meaning: Meaning) -> Row {
    Row { speaker, with: "", words, meaning }
}

/// Of the rows of a speaker the first that matches decides. What no row knows is the cluster's fault, for trying again is cheap.
static TABLE: [Row; 20] = [
    // A registry in trouble may say both: that it is, and that it knows nobody. How containerd, CRI-O and the network say that a
    // registry does not answer, or not now; words with spaces cannot be a part of an image's name.
    row(
        Speaker::Pull,
        &[
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
            "tls:",
            "x509:",
            "toomanyrequests",
            "too many requests",
            "rate limit",
            "500 internal server error",
            "502 bad gateway",
            "503 service",
            "504 gateway",
            "no space left on device",
        ],
        Meaning::RegistryInTrouble,
    ),
    row(
        Speaker::Pull,
        &[
            "repository does not exist",
            "pull access denied",
            "insufficient_scope",
            "requested access to the resource is denied",
            "401 unauthorized",
            "unauthorized: ",
            "authentication required",
            "403 forbidden",
        ],
        Meaning::NotGiven,
    ),
    row(
        Speaker::Pull,
        &[
            ": not found",
            "404 not found",
            "manifest unknown",
            "name unknown",
            "no match for platform",
            "invalid reference format",
        ],
        Meaning::NoSuchImage,
    ),
    row(
        Speaker::Config,
        &[
            "timed out",
            "timeout",
            "connection refused",
            "not yet been read",
            "not registered",
            "deadline exceeded",
        ],
        Meaning::ApiServerInTrouble,
    ),
    row(Speaker::Config, &["runasnonroot", "invalid variable name"], Meaning::BadConfig),
    row(Speaker::Create, &["no command specified"], Meaning::BadConfig),
    // As runc and crun say it. A broken node fails about hooks, mounts and devices with the words of a bad command.
    row(Speaker::Start, &["hook", "error mounting", "nvidia-container-cli"], Meaning::NodeInTrouble),
    row(Speaker::Start, &["exec format error"], Meaning::BadCommand),
    Row {
        with: "exec: \"",
        ..row(
            Speaker::Start,
            &["executable file not found", "no such file or directory", "permission denied"],
            Meaning::BadCommand,
        )
    },
    // The storage of its main container, or of all containers together. Otherwise the node was short of something, or what was
    // injected used too much: a ScavengerJob has no `emptyDir` of its own.
    row(
        Speaker::Eviction,
        &[
            "Container main exceeded its local ephemeral storage limit",
            "Pod ephemeral local storage usage exceeds the total limit",
        ],
        Meaning::OwnLimit,
    ),
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
        row.speaker == speaker
            && message.contains(row.with)
            && row.words.iter().any(|words| message.contains(words))
    };
    TABLE.iter().find(says).map(|row| row.meaning)
}
