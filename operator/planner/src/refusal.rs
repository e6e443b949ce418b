//! What it means when the API server does not take a Job or its pods. It says so in a sentence; status codes tell too
//! little (almost everything is 403), and of pods the operator sees nothing but the sentence in an event.

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A quota is used up: to be tried again later.
    Quota,
    /// The service account does not exist. What the spec refers to is looked up before a start, and there it is judged.
    Reference,
    /// The object will never be taken: Pod Security, LimitRange, an admission policy, an invalid field.
    Final,
    /// It may pass, and is not the ScavengerJob's fault.
    Passing,
}

/// What the API server may say with 403 although another day it would take the very same object.
const PASSING: [&str; 6] = [
    "cannot create resource",
    "being terminated",
    "no PriorityClass",
    "status unknown for quota",
    "not yet ready to handle request",
    "failed calling webhook",
];

/// Judges the sentence of a refusal.
#[must_use]
pub fn judge(sentence: &str) -> Refusal {
    if sentence.contains("exceeded quota") {
        Refusal::Quota
    } else if sentence.contains("error looking up service account") {
        Refusal::Reference
    } else if PASSING.iter().any(|passing| sentence.contains(passing)) {
        Refusal::Passing
    } else if sentence.contains(" is forbidden: ") || sentence.contains(" is invalid: ") {
        Refusal::Final
    } else {
        Refusal::Passing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kube-apiserver 1.36 says it.
    #[test]
    fn the_servers_sentences_are_understood() {
        for (sentence, refusal) in [
            (
                r#"pods "a-1-0-x" is forbidden: exceeded quota: small, requested: cpu=1, used: cpu=0, limited: cpu=500m"#,
                Refusal::Quota,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: violates PodSecurity "restricted:latest": seccompProfile"#,
                Refusal::Final,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: maximum cpu usage per Container is 10m, but limit is 20m"#,
                Refusal::Final,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: failed quota: small: must specify limits.nvidia.com/gpu"#,
                Refusal::Final,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"#,
                Refusal::Final,
            ),
            (r#"Pod "a-1-0-x" is invalid: spec.containers[0].image: Required value"#, Refusal::Final),
            (
                r#"pods "a-1-0-x" is forbidden: error looking up service account lab/me: serviceaccount "me" not found"#,
                Refusal::Reference,
            ),
            (
                r#"pods is forbidden: User "system:serviceaccount:kube-system:job-controller" cannot create resource "pods""#,
                Refusal::Passing,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: unable to create new content in namespace lab because it is being terminated"#,
                Refusal::Passing,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: no PriorityClass with name scavenger-0 was found"#,
                Refusal::Passing,
            ),
            (r#"pods "a-1-0-x" is forbidden: status unknown for quota: small"#, Refusal::Passing),
            ("Internal error occurred: failed calling webhook \"x\"", Refusal::Passing),
            ("etcdserver: request timed out", Refusal::Passing),
        ] {
            assert_eq!(judge(sentence), refusal, "{sentence}");
        }
    }
}
