//! What names, keys and values look like that Kubernetes takes. Each form is spelled once. The definitions carry it as a pattern,
//! so that the API server refuses anything else; the operator asks [`Form::fits`] about what was stored before the pattern was
//! there.
//!
//! No form is narrower than that of the object that is named: what is refused here cannot exist.

use std::sync::OnceLock;

use regex_lite::Regex;

/// How a kind of text looks.
#[derive(Debug)]
pub struct Form {
    /// A regular expression that Go and Rust read alike.
    pub pattern: &'static str,
    /// The most characters that it has.
    pub longest: usize,
    /// What it is, for people: what follows "must be".
    pub description: &'static str,
    compiled: OnceLock<Regex>,
}

impl Form {
    const fn new(pattern: &'static str, longest: usize, description: &'static str) -> Self {
        Self { pattern, longest, description, compiled: OnceLock::new() }
    }

    /// True for text of this form.
    ///
    /// # Panics
    /// If the pattern is no regular expression, which a test of each excludes.
    pub fn fits(&self, text: &str) -> bool {
        let pattern =
            self.compiled.get_or_init(|| Regex::new(self.pattern).expect("a form's pattern should be valid"));
        text.len() <= self.longest && pattern.is_match(text)
    }
}

/// Name of a ConfigMap, a Secret, a claim, a service account or a RuntimeClass.
pub static NAME: Form = Form::new(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    253,
    "a name of lower case letters, digits, '-' and '.', at most 253 characters",
);

/// Name of a ScavengerJob. The names of its Jobs, its pods and its Service are longer by 18 characters at most.
pub static SCAVENGER_JOB: Form = Form::new(
    "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    45,
    "a DNS-1035 label (lower case letters, digits and '-', starting with a letter) of at most 45 characters, since the names \
     of its pods append to it",
);

/// Key of a label, an annotation or a taint, and name of a resource.
pub static KEY: Form = Form::new(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    // A prefix of 253, a slash and a name of 63.
    317,
    "a name of at most 63 letters, digits, '-', '_' and '.', with an optional DNS prefix: nvidia.com/gpu",
);

/// Key of an annotation: its prefix may have capitals.
pub static ANNOTATION_KEY: Form = Form::new(
    r"^([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    317,
    "a name of at most 63 letters, digits, '-', '_' and '.', with an optional DNS prefix: sidecar.istio.io/inject",
);

/// The same or nothing, which means every key.
pub static KEY_OR_NOTHING: Form = Form::new(
    r"^(([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
    317,
    KEY.description,
);

/// Value of a label or a taint.
pub static LABEL_VALUE: Form = Form::new(
    "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
    63,
    "at most 63 letters, digits, '-', '_' and '.' that begin and end with a letter or digit",
);

/// What a container may request: Kubernetes' own resources, and those that a device plugin offers under a domain. Those of a
/// quota begin with "requests.".
pub static RESOURCE: Form = Form::new(
    r"^(cpu|memory|ephemeral-storage|hugepages-[A-Za-z0-9]([-A-Za-z0-9_.]{0,50}[A-Za-z0-9])?|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$",
    317,
    "cpu, memory, ephemeral-storage, hugepages-SIZE, or the name of an extended resource with its domain: nvidia.com/gpu",
);

/// Key of a ConfigMap or a Secret: a file name that is neither hidden twice nor the folder above.
pub static DATA_KEY: Form = Form::new(
    r"^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$",
    253,
    "a key of letters, digits, '-', '_' and '.', at most 253 characters, that does not begin with '..'",
);

/// Path of a field of the pod that a variable may have as its value.
pub static FIELD_PATH: Form = Form::new(
    r"^(metadata\.(name|namespace|uid|(labels|annotations)\['([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?'\])|spec\.(nodeName|host|serviceAccountName)|status\.(hostIPs?|podIPs?))$",
    // A key and what is around it.
    341,
    "metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'], metadata.annotations['KEY'], spec.nodeName, \
     spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP or status.podIPs",
);

/// Reference of an image: nothing of it is a blank.
pub static IMAGE: Form =
    Form::new("^[!-~]+$", 1024, "the reference of an image, without blanks, at most 1024 characters");

/// An image, or all that begin alike. What stands before the `*` ends with a separator: else `registry.example/a*` would let in
/// `registry.example/another`.
pub static IMAGES: Form = Form::new(
    "^[!-)+-~]+([/:@][*])?$",
    512,
    "an image, or the beginning of one and * behind '/', ':' or '@', for example registry.example/chem/*",
);

/// Name of a time zone of the IANA database.
pub static TIME_ZONE: Form = Form::new(
    "^[A-Za-z0-9][-+_A-Za-z0-9]*(/[A-Za-z0-9][-+_A-Za-z0-9]*)*$",
    64,
    "the name of a time zone of the IANA database, for example Europe/Berlin",
);

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::{scavenger_job::ScavengerJob, scavenger_pool::ScavengerPool};

    /// What nothing may be: each would be another path, another query or no line.
    const NOTHINGS: [&str; 12] =
        ["../x", "A B", "a b", "a/../b", "a?b=c", "a#b", "a%2fb", "a\n", "\u{e4}", "..", " a", "a/b/c"];

    #[test]
    fn what_is_no_name_fits_no_form() {
        let forms = [&NAME, &SCAVENGER_JOB, &KEY, &ANNOTATION_KEY, &KEY_OR_NOTHING, &LABEL_VALUE, &RESOURCE];
        for form in forms.into_iter().chain([&DATA_KEY, &FIELD_PATH]) {
            for text in NOTHINGS {
                assert!(!form.fits(text), "{text:?} fits {}", form.pattern);
            }
            assert!(!form.fits(&"a".repeat(form.longest + 1)), "{}", form.pattern);
        }
        for text in ["a b", " a", "a\n", "\u{e4}", ""] {
            assert!(!IMAGE.fits(text) && !TIME_ZONE.fits(text) && !IMAGES.fits(text), "{text:?}");
        }
        for text in ["*", "/*", "a*", "a/*b", "a/**", "*/a", "a-*"] {
            assert!(!IMAGES.fits(text), "{text:?}");
        }
    }

    #[test]
    fn what_kubernetes_takes_fits() {
        let long = format!("{}/{}", vec!["d".repeat(63); 3].join("."), "n".repeat(63));
        for (form, texts) in [
            (&NAME, &["a", "0", "data-1", "kube-root-ca.crt"][..]),
            (&SCAVENGER_JOB, &["a", "gromacs-7-1"]),
            (&KEY, &["gpu", "a", "nvidia.com/gpu", "example.com/A_b.c", "0/0", &long]),
            (&ANNOTATION_KEY, &["Example.com/a", "sidecar.istio.io/inject"]),
            (&KEY_OR_NOTHING, &["", "nvidia.com/gpu"]),
            (&LABEL_VALUE, &["", "amd64", "A_b.c-1"]),
            (&RESOURCE, &["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/mig-1g.5gb"]),
            (&DATA_KEY, &["a", ".a", "a..b", "_", "-", "app.conf"]),
            (&FIELD_PATH, &["metadata.name", "metadata.labels['scavenger.dev/job']", "status.podIPs"]),
            (&IMAGE, &["a", "registry.example:5000/a/b@sha256:00"]),
            (&IMAGES, &["a", "registry.example:5000/a/b@sha256:00", "registry.example/*", "a:*", "a@*"]),
            (&TIME_ZONE, &["Etc/GMT+5", "America/Port-au-Prince", "W-SU", "America/Argentina/Buenos_Aires"]),
        ] {
            for text in texts {
                assert!(form.fits(text), "{text:?} does not fit {}", form.pattern);
            }
        }
    }

    #[test]
    fn what_kubernetes_refuses_does_not_fit() {
        for (form, texts) in [
            (&NAME, &["", "A", "a.", ".a", "a..b", "-a", "a_b"][..]),
            (&SCAVENGER_JOB, &["", "1a", "a.b", "a-"]),
            (&KEY, &["", "/a", "a/", "A.com/b", "a..b/c", "-a", "a-"]),
            (&LABEL_VALUE, &["-a", "a-", "a/b"]),
            (&RESOURCE, &["", "pods", "gpu", "CPU", "requests.cpu", "hugepages-", "storage"]),
            (&DATA_KEY, &["", ".", "..", "..a", "a/b"]),
            (&FIELD_PATH, &["", "metadata", "metadata.labels", "spec.containers", "metadata.labels['a b']"]),
            (&TIME_ZONE, &["../etc", "/Europe", "Europe/"]),
        ] {
            for text in texts {
                assert!(!form.fits(text), "{text:?} fits {}", form.pattern);
            }
        }
        assert!(!KEY.fits(&"a".repeat(64)), "the name is too long");
    }

    /// Text that people write as they like, or that a rule of its own reads.
    const FREE: [&str; 7] = [
        ".args",
        ".checkpoint.request.command",
        ".command",
        ".env.value",
        ".podMetadata.annotations",
        ".supervisor.signal.process",
        ".trustedCreators",
    ];

    /// Texts below a schema that have neither a pattern nor a list of words nor a rule, and maps whose keys have no rule.
    fn formless(path: &str, schema: &Value, found: &mut Vec<String>) {
        let has = |key: &str| !schema[key].is_null();
        if schema["type"] == "string" && !has("pattern") && !has("enum") && !has("x-kubernetes-validations") {
            found.push(path.to_owned());
        }
        if schema["additionalProperties"].is_object() {
            if !has("x-kubernetes-validations") {
                found.push(format!("{path}: key"));
            }
            formless(path, &schema["additionalProperties"], found);
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            formless(&format!("{path}.{name}"), property, found);
        }
        if schema["items"].is_object() {
            formless(path, &schema["items"], found);
        }
    }

    #[test]
    fn every_name_key_and_value_of_a_spec_has_a_form() {
        let mut found = Vec::new();
        for crd in [ScavengerJob::crd(), ScavengerPool::crd()] {
            let crd = serde_json::to_value(crd).unwrap();
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            formless("", &schema["properties"]["spec"], &mut found);
        }
        assert_eq!(found, FREE);
    }

    proptest! {
        /// Names become parts of paths.
        #[test]
        fn what_fits_a_name_is_one_segment(text in any::<String>()) {
            for form in [&NAME, &SCAVENGER_JOB] {
                prop_assert!(!form.fits(&text) || !text.contains(['/', '?', '#', '%', ' ']) && !text.contains(".."));
            }
        }
    }
}
