//! Pieces of CEL that several rules use. What is wrong is said by one rule, the one of its own field: rules that compare
//! fields hold while one of these cannot be read.

use kube::core::Rule;

use crate::{
    form::{self, Form},
    supervisor::MOUNT_PATH,
};

/// Hours, minutes, seconds and milliseconds with a bound for each, so that `duration()` never fails: it holds 292 years.
const DURATION: &str = "^([0-9]{1,7}([.][0-9]{1,9})?(ms|s|m)|[0-9]{1,5}([.][0-9]{1,9})?h)+$";

/// Characters of `command`, `args` and `env` together.
const LONGEST_INPUT: u32 = 65_536;

/// True for text that can be read as a duration.
fn is_duration(field: &str) -> String {
    format!("self.{field}.matches('{DURATION}')")
}

/// The rule of a field that is a duration.
pub(crate) fn duration_rule() -> Rule {
    Rule::new(format!("self.matches('{DURATION}')")).message(
        "must be a duration of hours, minutes, seconds or milliseconds, for example 90s, 10m or 1h30m",
    )
}

/// A duration has a lower bound.
pub(crate) fn at_least(field: &str, least: &str) -> Rule {
    Rule::new(format!("!{} || duration(self.{field}) >= duration('{least}')", is_duration(field)))
        .message(&*format!("{field} must be at least {least}"))
        .field_path(format!(".{field}"))
}

/// A duration has two bounds.
pub(crate) fn between(field: &str, least: &str, most: &str) -> Rule {
    bounded("", field, least, most)
}

/// The same where it need not be given.
pub(crate) fn between_if_given(field: &str, least: &str, most: &str) -> Rule {
    bounded(&format!("!has(self.{field}) || dyn(self.{field}) == null || "), field, least, most)
}

fn bounded(unless: &str, field: &str, least: &str, most: &str) -> Rule {
    Rule::new(format!(
        "{unless}!{} || (duration(self.{field}) >= duration('{least}') && duration(self.{field}) <= duration('{most}'))",
        is_duration(field)
    ))
    .message(&*format!("{field} must be between {least} and {most}"))
    .field_path(format!(".{field}"))
}

/// The first duration is not longer than the second one.
pub(crate) fn not_longer(shorter: &str, longer: &str) -> Rule {
    Rule::new(format!(
        "!{} || !{} || duration(self.{shorter}) <= duration(self.{longer})",
        is_duration(shorter),
        is_duration(longer)
    ))
    .message(&*format!("{longer} must not be less than {shorter}"))
    .field_path(format!(".{longer}"))
}

/// In each element of a list, a `what`, the headroom target is at least the start threshold and below the interrupt threshold.
/// What overrides say of single resources is judged by the operator: to follow it here would cost too much.
pub(crate) fn thresholds_in(list: &str, what: &str) -> Rule {
    let of = |field: &str| format!("(has(w.{field}) ? w.{field} : self.{field})");
    let (start, target) = (of("startThreshold"), of("headroomTarget"));
    let interrupt = "(has(w.interruptThreshold) ? w.interruptThreshold : (has(self.interruptThreshold) && \
                     dyn(self.interruptThreshold) != null ? self.interruptThreshold : 1.0))";
    Rule::new(format!(
        "!has(self.{list}) || self.{list}.all(w, {interrupt} >= 1.0 || ({start} <= {target} && {target} < {interrupt}))"
    ))
    .message(&*format!(
        "in each {what} headroomTarget must be at least startThreshold and below interruptThreshold, the pool's where the \
         {what} names none (interruptThreshold: 1 switches headroom off)"
    ))
    .field_path(format!(".{list}"))
}

/// What is counted by use is taken back, too: otherwise a node would be filled by use for good. This holds in each window,
/// and for cpu and memory by name.
pub(crate) fn below_interrupt_threshold_by_use() -> Rule {
    let of_resource = |name: &str| {
        format!(
            "(!has(self.interruptThresholdOverrides) || !('{name}' in self.interruptThresholdOverrides) || \
             self.interruptThresholdOverrides['{name}'] < 1.0)"
        )
    };
    let in_each = |list: &str| {
        format!(
            "(!has(self.{list}) || self.{list}.all(w, !has(w.interruptThreshold) || w.interruptThreshold < 1.0))"
        )
    };
    Rule::new(format!(
        "!has(self.accounting) || self.accounting != 'Usage' || (has(self.interruptThreshold) && \
         dyn(self.interruptThreshold) != null && self.interruptThreshold < 1.0 && {} && {} && {} && {})",
        of_resource("cpu"),
        of_resource("memory"),
        in_each("windows"),
        in_each("nodeGroups"),
    ))
    .message(
        "accounting: Usage needs an interruptThreshold below 1, in windows, node groups and overrides for cpu and memory, \
         too: what ordinary pods begin to use is taken back from there",
    )
    .field_path(".interruptThreshold")
}

/// A checkpoint at least every `interruptionAfter`.
pub(crate) fn checkpoint_interval() -> Rule {
    let interval = "checkpoint.interval";
    Rule::new(format!(
        "!has(self.checkpoint) || !has(self.{interval}) || !{} || !{} || \
         duration(self.interruptionAfter) < duration('1s') || (duration(self.{interval}) > duration('0s') && \
         duration(self.{interval}) <= duration(self.interruptionAfter))",
        is_duration(interval),
        is_duration("interruptionAfter"),
    ))
    .message(
        "checkpoint.interval must be positive and not longer than interruptionAfter: the workload promises a \
         checkpoint at least that often",
    )
    .field_path(format!(".{interval}"))
}

/// An amount as it was written: a number or text. Only text needs `isQuantity`, which would refuse a number, and `string()` of
/// it would cost as much again: the API server takes the text for as long as a request may be, whatever `maxLength` says.
/// Rules about every amount therefore read each text twice at most, and with the 15 names that a list may have that is just
/// below what Kubernetes 1.31 lets a rule cost.
fn amount(field: &str) -> String {
    format!("self.{field}[k]")
}

/// `whole` of an amount that is a whole number, `quantity` of one that is text and can be read.
fn if_readable(amount: &str, whole: &str, quantity: &str) -> String {
    format!("(type({amount}) == int ? {amount} {whole} : !isQuantity({amount}) || {quantity})")
}

/// Every amount can be read. The message names no key: the API server takes its cost for unbounded.
pub(crate) fn quantities(field: &str) -> Rule {
    let amount = amount(field);
    Rule::new(format!(
        "!has(self.{field}) || self.{field}.all(k, type({amount}) == int || isQuantity({amount}))"
    ))
    .message(&*format!("every amount in {field} must be a quantity such as 500m, 2 or 1.5Gi"))
    .field_path(format!(".{field}"))
}

/// No amount is below zero.
pub(crate) fn not_negative(field: &str) -> Rule {
    let amount = amount(field);
    let holds = if_readable(&amount, ">= 0", &format!("!quantity({amount}).isLessThan(quantity('0'))"));
    Rule::new(format!("!has(self.{field}) || self.{field}.all(k, {holds})"))
        .message(&*format!("no amount in {field} can be negative"))
        .field_path(format!(".{field}"))
}

/// Every request is more than nothing.
pub(crate) fn positive_requests() -> Rule {
    let amount = amount("requests");
    let holds = if_readable(&amount, "> 0", &format!("quantity({amount}).isGreaterThan(quantity('0'))"));
    Rule::new(format!("self.requests.all(k, {holds})"))
        .message("every request must be greater than 0")
        .field_path(".requests")
}

/// The limits are those of the requests, and what is neither cpu nor memory is written alike: to compare every amount by its
/// value would cost too much.
pub(crate) fn limits_equal_requests() -> Rule {
    Rule::new(
        "!has(self.limits) || (self.limits.size() == self.requests.size() && self.requests.all(k, k in self.limits && \
         (k in ['cpu', 'memory'] || self.limits[k] == self.requests[k])))",
    )
    .message(
        "limits must equal requests, and be written alike: the pods are Guaranteed (leave limits out, or write the same \
         values)",
    )
    .field_path(".limits")
}

/// The limit of cpu or memory is worth the request.
pub(crate) fn limit_equals_request(resource: &str) -> Rule {
    let (limit, request) = (format!("self.limits['{resource}']"), format!("self.requests['{resource}']"));
    Rule::new(format!(
        "!has(self.limits) || !('{resource}' in self.limits) || !('{resource}' in self.requests) || \
         !isQuantity(string({limit})) || !isQuantity(string({request})) || \
         quantity(string({limit})).compareTo(quantity(string({request}))) == 0"
    ))
    .message(&*format!(
        "limits.{resource} must equal requests.{resource}: the pods are Guaranteed (leave limits out, or write the same \
         values)"
    ))
    .field_path(".limits")
}

/// A request is at most what sums can hold.
pub(crate) fn at_most(resource: &str, most: &str) -> Rule {
    let amount = format!("string(self.requests['{resource}'])");
    Rule::new(format!(
        "!('{resource}' in self.requests) || !isQuantity({amount}) || \
         !quantity({amount}).isGreaterThan(quantity('{most}'))"
    ))
    .message(&*format!("requests.{resource} must be at most {most} for each pod"))
    .field_path(".requests")
}

/// The same for what is neither cpu nor memory.
pub(crate) fn others_at_most(most: &str, number: u64) -> Rule {
    let amount = amount("requests");
    let holds = if_readable(
        &amount,
        &format!("<= {number}"),
        &format!("!quantity({amount}).isGreaterThan(quantity('{most}'))"),
    );
    Rule::new(format!("self.requests.all(k, k in ['cpu', 'memory'] || {holds})"))
        .message(&*format!("requests must be at most {most} of any resource for each pod"))
        .field_path(".requests")
}

/// What is given to the program is small: it is kept in memory for every ScavengerJob, and listed with all others.
pub(crate) fn input() -> Rule {
    let sum =
        |field: &str, size: &str| format!("(has(self.{field}) ? self.{field}.map(x, {size}).sum() : 0)");
    let sizes = [
        sum("command", "x.size()"),
        sum("args", "x.size()"),
        sum("env", "x.name.size() + (has(x.value) ? x.value.size() : 0)"),
    ];
    Rule::new(format!("{} <= {LONGEST_INPUT}", sizes.join(" + "))).message(&*format!(
        "command, args and env must have at most {LONGEST_INPUT} characters together; put larger input into a ConfigMap \
         or onto a volume"
    ))
}

/// The supervisor is put in front of a command.
pub(crate) fn supervisor_needs_a_command() -> Rule {
    Rule::new(
        "!has(self.supervisor) || !has(self.supervisor.enabled) || !self.supervisor.enabled || \
         (has(self.command) && self.command.size() > 0)",
    )
    .message(
        "supervisor.enabled needs command: the operator cannot know the image's ENTRYPOINT (docs/checkpointing.md says how \
         to read it)",
    )
    .field_path(".supervisor.enabled")
}

/// What is watched lies where it outlives the pod.
pub(crate) fn on_a_claim(field: &str) -> Rule {
    let path = format!("self.checkpoint.{field}");
    Rule::new(format!(
        "!has(self.checkpoint) || !has({path}) || (has(self.persistentVolumeClaims) && \
         self.persistentVolumeClaims.exists(m, !(has(m.readOnly) && m.readOnly) && \
         {path}.startsWith(m.mountPath.endsWith('/') ? m.mountPath : m.mountPath + '/')))"
    ))
    .message(&*format!(
        "checkpoint.{field} must lie below the mountPath of one of persistentVolumeClaims that is not readOnly: what lies \
         elsewhere is gone with the pod"
    ))
    .field_path(format!(".checkpoint.{field}"))
}

/// Without a path nobody sees whether the checkpoint was written.
pub(crate) fn request_needs_a_path() -> Rule {
    Rule::new("!has(self.checkpoint) || !has(self.checkpoint.request) || has(self.checkpoint.path)")
        .message(
            "checkpoint.request needs checkpoint.path: the operator waits until a checkpoint is seen there",
        )
        .field_path(".checkpoint.request")
}

/// Two ways to ask would ask twice.
pub(crate) fn request_in_one_way() -> Rule {
    let request = "self.checkpoint.request";
    Rule::new(format!(
        "!has(self.checkpoint) || !has({request}) || has({request}.signal) != has({request}.command)"
    ))
    .message("checkpoint.request needs either signal or command, and not both")
    .field_path(".checkpoint.request")
}

/// A rank is the index of a pod.
pub(crate) fn rank_of_a_pod() -> Rule {
    Rule::new("!has(self.checkpoint) || !has(self.checkpoint.rank) || self.checkpoint.rank < self.podCount")
        .message("checkpoint.rank must be less than podCount: pods are counted from 0")
        .field_path(".checkpoint.rank")
}

/// Where the supervisor's files are, nothing else is mounted.
pub(crate) fn beside_the_supervisor() -> Rule {
    let free = |field: &str| {
        let is_taken = format!("m.mountPath == '{MOUNT_PATH}' || m.mountPath.startsWith('{MOUNT_PATH}/')");
        format!("(!has(self.{field}) || !self.{field}.exists(m, {is_taken}))")
    };
    let fields = ["persistentVolumeClaims", "configMaps", "secrets"];
    Rule::new(fields.map(free).join(" && "))
        .message(&*format!("mountPath must not be {MOUNT_PATH} or below: the supervisor's files are there"))
}

/// The name of a ScavengerJob, which never changes. So it is judged when the object is made, and one that was stored before
/// the rule was there takes every later write.
pub(crate) fn name_when_it_is_made() -> Rule {
    let Form { pattern, longest, description, .. } = &form::SCAVENGER_JOB;
    let name = "self.metadata.name";
    Rule::new(format!("oldSelf.hasValue() || ({name}.size() <= {longest} && {name}.matches('{pattern}'))"))
        .message(&*format!("metadata.name must be {description}"))
        .optional_old_self(true)
}

/// Every key of a map has this form. A schema has patterns for values only.
pub(crate) fn keys(form: &Form) -> Rule {
    let Form { pattern, longest, description, .. } = form;
    // In a text of CEL a backslash and a quote need a backslash before them.
    let pattern = pattern.replace('\\', r"\\").replace('\'', r"\'");
    Rule::new(format!("self.all(k, k.size() <= {longest} && k.matches('{pattern}'))"))
        .message(&*format!("every key must be {description}"))
}

/// Keys that others write.
fn not_ours() -> Rule {
    let ours = "k.startsWith('scavenger.dev/') || k.startsWith('batch.kubernetes.io/') || k == 'job-name' || \
                k == 'controller-uid'";
    Rule::new(format!("!self.exists(k, {ours})")).message(
        "keys that begin with scavenger.dev/ are the operator's; batch.kubernetes.io/, job-name and \
         controller-uid are the Job controller's",
    )
}

/// Labels of pods.
pub(crate) fn pod_label_rules() -> [Rule; 2] {
    [keys(&form::KEY), not_ours()]
}

/// Annotations of pods. The one that chooses an AppArmor profile would take the container out of the runtime's default.
pub(crate) fn pod_annotation_rules() -> [Rule; 3] {
    let profile = Rule::new("!self.exists(k, k.startsWith('container.apparmor.security.beta.kubernetes.io/'))")
        .message("container.apparmor.security.beta.kubernetes.io/ is not passed on: the runtime's default profile holds");
    [keys(&form::ANNOTATION_KEY), not_ours(), profile]
}
