//! What it means when the API server does not take a Job or its pods. It says so in a message; status codes tell too
//! little (almost everything is 403), and of pods the operator sees nothing but the message in an event.

use super::{BY_WEBHOOK, Meaning, Speaker, meaning};

pub use super::Refusal;

/// Behind these the words are not those of the API server, but of a webhook, of a policy's author, or of the object.
const BEFORE_FOREIGN_WORDS: [&str; 3] = [BY_WEBHOOK, " denied request: ", " is invalid: "];

/// What the API server itself says.
fn own_words(message: &str) -> &str {
    let ends = BEFORE_FOREIGN_WORDS.iter().filter_map(|words| Some(message.find(words)? + words.len()));
    ends.min().map_or(message, |end| &message[..end])
}

/// Judges the message of a refusal.
#[must_use]
pub fn judge(message: &str) -> Refusal {
    match meaning(Speaker::ApiServer, own_words(message)) {
        Some(Meaning::Refused(refusal)) => refusal,
        _ => Refusal::Passing,
    }
}

/// True if an admission webhook refused the object. The code of its answer is whatever it likes.
#[must_use]
pub fn is_by_webhook(message: &str) -> bool {
    message.contains(BY_WEBHOOK)
}

/// True if admission stands against a request: a webhook that denies it or cannot be called, a policy, or a plugin of
/// the API server. Those who lack the right are refused in similar words.
#[must_use]
pub fn is_by_admission(message: &str) -> bool {
    let is_lack_of_rights = message.contains(" cannot create resource ");
    is_by_webhook(message)
        || message.contains("failed calling webhook")
        || message.contains(" is forbidden: ") && !is_lack_of_rights
}

/// True if a LimitRange refuses pods because they request too little, as those do whose capacity is counted by use.
#[must_use]
pub fn is_of_small_requests(message: &str) -> bool {
    meaning(Speaker::LimitRange, own_words(message)).is_some()
}

/// The resources that a refusal by a quota names, without "requests.", "limits." or "count/": the sum of what pods request,
/// or a kind of objects that are counted.
#[must_use]
pub fn resources_of_quota(message: &str) -> Vec<&str> {
    let asked = message.split_once(" requested: ").map_or("", |(_, rest)| rest);
    let asked = asked.split_once(", used: ").map_or("", |(asked, _)| asked);
    let names = asked.split(',').filter_map(|part| part.split_once('=')).map(|(name, _)| name);
    let prefixes = ["requests.", "limits.", "count/"];
    let bare = |name| prefixes.iter().find_map(|prefix| str::strip_prefix(name, prefix)).unwrap_or(name);
    names.map(bare).collect()
}

/// True for a message with which somebody refused the object; others say that nobody answered.
#[must_use]
pub fn is_refusal(message: &str) -> bool {
    judge(message) != Refusal::Passing
        || message.contains(" is forbidden: ")
        || message.contains("failed calling webhook")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kube-apiserver, 1.31 as 1.37, says it of an eviction.
    #[test]
    fn admission_that_stands_against_an_eviction_is_distinguished_from_a_lack_of_rights_and_from_a_server_in_trouble()
     {
        for (sentence, is) in [
            (
                r#"Internal error occurred: failed calling webhook "drain-guard.example.com": failed to call webhook: Post "https://drain-guard.k07.svc:443/?timeout=2s": dial tcp 10.96.0.9:443: connect: connection refused"#,
                true,
            ),
            (r#"admission webhook "drain-guard.example.com" denied the request: no evictions today"#, true),
            (
                r#"pods "night-1-0" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"#,
                true,
            ),
            (
                r#"pods "night-1-0" is forbidden: unable to create new content in namespace lab because it is being terminated"#,
                true,
            ),
            (
                r#"pods "night-1-0" is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods/eviction" in API group "" in the namespace "lab""#,
                false,
            ),
            ("etcdserver: request timed out", false),
            ("Too many requests, please try again later.", false),
            (r#"pods "night-1-0" not found"#, false),
        ] {
            assert_eq!(is_by_admission(sentence), is, "{sentence}");
        }
    }

    /// As kube-apiserver says it, 1.31 as 1.37.
    #[test]
    fn the_servers_sentences_are_understood() {
        for (sentence, refusal) in [
            (
                r#"pods "a-1-0-x" is forbidden: exceeded quota: small, requested: cpu=1, used: cpu=0, limited: cpu=500m"#,
                Refusal::Quota,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: violates PodSecurity "restricted:latest": seccompProfile"#,
                Refusal::Denied,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: maximum cpu usage per Container is 10m, but limit is 20m"#,
                Refusal::Denied,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: failed quota: small: must specify limits.nvidia.com/gpu"#,
                Refusal::Denied,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"#,
                Refusal::Denied,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: ValidatingAdmissionPolicy 'scavenger-pods' with binding 'scavenger-pods' denied request: only Jobs"#,
                Refusal::Passing,
            ),
            (
                r#"jobs.batch "a-1" is forbidden: ValidatingAdmissionPolicy 'scavenger-operator-jobs' with binding 'b' denied request: no"#,
                Refusal::Passing,
            ),
            (
                r#"jobs.batch "a-1" is forbidden: ValidatingAdmissionPolicy 'scavenger-child-jobs' with binding 'scavenger-child-jobs' denied request: only the operator"#,
                Refusal::Passing,
            ),
            (
                r#"admission webhook "rules.example.com" denied the request: label team is missing"#,
                Refusal::Denied,
            ),
            (
                r#"admission webhook "rules.example.com" denied the request without explanation"#,
                Refusal::Denied,
            ),
            (r#"Pod "a-1-0-x" is invalid: spec.containers[0].image: Required value"#, Refusal::Denied),
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
                Refusal::Terminating,
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

    /// As webhooks, policies and users may choose them.
    #[test]
    fn foreign_words_are_not_taken_for_the_servers() {
        for sentence in [
            r#"admission webhook "rules.example.com" denied the request: the team has exceeded quota"#,
            r#"pods "a-1-0-x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: the project is being terminated"#,
            r#"admission webhook "rules.example.com" denied the request: minimum cpu usage per team"#,
            r#"Job.batch "a-1" is invalid: spec.template.annotations: Invalid value: "failed calling webhook": no"#,
        ] {
            assert_eq!(judge(sentence), Refusal::Denied, "{sentence}");
            assert!(!is_of_small_requests(sentence), "{sentence}");
        }
    }

    #[test]
    fn the_resources_of_a_quota_are_named() {
        let sentence = r#"pods "a-1-0-x" is forbidden: exceeded quota: small, requested: limits.cpu=1,memory=1Gi,requests.nvidia.com/gpu=1, used: limits.cpu=0,memory=0,requests.nvidia.com/gpu=2, limited: limits.cpu=500m,memory=1,requests.nvidia.com/gpu=2"#;
        assert_eq!(resources_of_quota(sentence), ["cpu", "memory", "nvidia.com/gpu"]);
        let sentence = r#"jobs.batch "a-1" is forbidden: exceeded quota: small, requested: count/jobs.batch=1, used: count/jobs.batch=5, limited: count/jobs.batch=5"#;
        assert_eq!(resources_of_quota(sentence), ["jobs.batch"]);
        let sentence = r#"services "a" is forbidden: exceeded quota: small, requested: count/services=1,services=1, used: count/services=5,services=5, limited: count/services=5,services=5"#;
        assert_eq!(resources_of_quota(sentence), ["services", "services"]);
        assert!(resources_of_quota("exceeded quota: small").is_empty());
    }

    #[test]
    fn who_does_not_answer_does_not_refuse() {
        assert!(is_refusal("Internal error occurred: failed calling webhook \"x\""));
        assert!(is_refusal(
            "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'scavenger-pods' with binding"
        ));
        assert!(is_refusal("Job \"a\" is invalid: spec: Required value"));
        assert!(!is_refusal("etcdserver: request timed out"));
        assert!(!is_refusal("no answer within 20 s"));
    }

    /// As the LimitRanger of kube-apiserver says it, 1.31 as 1.37.
    #[test]
    fn a_limit_range_that_refuses_small_requests_is_recognised() {
        for (sentence, is_so) in [
            (
                r#"pods "a-1-0-x" is forbidden: [minimum cpu usage per Container is 100m, but request is 0]"#,
                true,
            ),
            (
                r#"pods "a-1-0-x" is forbidden: memory max limit to request ratio per Container is 2, but provided ratio is 128.000000"#,
                true,
            ),
            (r#"pods "a-1-0-x" is forbidden: maximum cpu usage per Container is 1, but limit is 4"#, false),
        ] {
            assert_eq!(is_of_small_requests(sentence), is_so, "{sentence}");
            assert_eq!(judge(sentence), Refusal::Denied, "{sentence}");
        }
    }
}
