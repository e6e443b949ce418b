//! Quotas, and namespaces that are being terminated.

use std::collections::BTreeSet;

use scavenger_planner::{
    resources::Resources,
    values::{Job, Key, Name, ScavengerJob},
};

use super::cluster::Cluster;

/// Name of the resource that counts Jobs in a quota.
const JOBS: &str = "count/jobs.batch";

/// Names of the resources that count Services.
const SERVICES: [&str; 2] = ["services", "count/services"];

/// Name of the resource that counts pods, whether they have ended or not; the other one is `pods`.
const PODS: &str = "count/pods";

impl Cluster {
    /// Why the API server does not take a Job with this name, if so.
    pub(super) fn job_refusal(&self, job: &Key) -> Option<String> {
        let what = format!("jobs.batch {:?}", &*job.name);
        if self.terminating.contains(&job.namespace) {
            return Some(terminating(&what, &job.namespace));
        }
        if self.is_denied(&self.denied_jobs, job) {
            return Some(denied(&what));
        }
        let jobs = self.jobs.keys().filter(|key| key.namespace == job.namespace).count();
        let used = i64::try_from(jobs).expect("few Jobs should be modelled");
        let hard = *self.quotas.get(&job.namespace)?.other.get(JOBS)?;
        (used + 1 > hard).then(|| exceeded(&what, JOBS, (1, used, hard)))
    }

    /// Why the API server does not take the Service of a gang, if it has none yet. It has one from its first Job on.
    pub(super) fn service_refusal(&self, sj: &Key) -> Option<String> {
        let has_service = |sj: &&ScavengerJob| {
            self.made.iter().any(|(uid, _)| *uid == sj.uid)
                && sj.spec.as_ref().is_ok_and(|spec| spec.demand.pod_count > 1)
        };
        if self.scavenger_jobs.get(sj).filter(has_service).is_some() {
            return None;
        }
        let quota = self.quotas.get(&sj.namespace)?;
        let (resource, hard) = SERVICES.iter().find_map(|name| Some((*name, *quota.other.get(*name)?)))?;
        let others = self.scavenger_jobs.values().filter(|other| other.key.namespace == sj.namespace);
        let used = i64::try_from(others.filter(has_service).count()).expect("few gangs should be modelled");
        let what = format!("services {:?}", &*sj.name);
        (used + 1 > hard).then(|| exceeded(&what, resource, (1, used, hard)))
    }

    /// Why the API server does not take the next pod of a Job, if there is to be one and it does not.
    pub(super) fn pod_refusal(&self, job: &Job) -> Option<String> {
        if self.pods_to_make(job) == 0 {
            return None;
        }
        if self.create_failure.is_some() {
            return self.create_failure.clone();
        }
        let namespace = &job.key.namespace;
        let what = format!("pods \"{}-0\"", job.key.name);
        if self.terminating.contains(namespace) {
            return Some(terminating(&what, namespace));
        }
        if self.is_denied(&self.denied_pods, &job.key) {
            return Some(denied(&what));
        }
        let sj = self.scavenger_jobs.values().find(|sj| sj.uid == job.owner);
        let runtime = sj.and_then(|sj| sj.spec.as_ref().ok()?.runtime.as_ref());
        if let Some(runtime) = runtime.filter(|runtime| !self.runtime_classes.contains_key(&runtime.class)) {
            // As the admission plugin RuntimeClass of kube-apiserver says it, 1.31 as 1.37.
            let class = &runtime.class;
            return Some(format!("{what} is forbidden: pod rejected: RuntimeClass {:?} not found", &**class));
        }
        let wanted = &self.pod_templates.get(&job.uid)?.per_pod;
        let requested = if self.by_use.contains(&job.uid) { 0 } else { wanted.cpu_milli };
        if let Some(least) = self.least_cpu.get(namespace).filter(|least| requested < **least) {
            // As the LimitRanger of kube-apiserver says it, 1.31 as 1.37.
            return Some(format!(
                "{what} is forbidden: minimum cpu usage per Container is {least}m, but request is {requested}m"
            ));
        }
        let hard = self.quotas.get(namespace)?;
        let mut used = Resources::default();
        let pods = self.pods.values().filter(|pod| pod.key.namespace == *namespace);
        if let Some(hard) = hard.other.get(PODS) {
            let used = i64::try_from(pods.clone().count()).expect("few pods should be modelled");
            if used + 1 > *hard {
                return Some(exceeded(&what, PODS, (1, used, *hard)));
            }
        }
        for pod in pods.filter(|pod| !pod.phase.is_terminal()) {
            used.add(&pod.requests);
        }
        let short = hard.iter().find(|(name, hard)| {
            *hard > 0 && !is_of_objects(name) && used.get(name).saturating_add(wanted.get(name)) > *hard
        });
        short.map(|(name, hard)| exceeded(&what, name, (wanted.get(name), used.get(name), hard)))
    }
}

impl Cluster {
    /// True if a Job of one of these ScavengerJobs has this name.
    fn is_denied(&self, denied: &BTreeSet<Key>, job: &Key) -> bool {
        let name = job.name.rsplit_once('-').map_or(&*job.name, |(name, _)| name);
        denied.contains(&Key::new(job.namespace.clone(), name))
    }
}

/// As kube-apiserver, 1.31 as 1.37, says what a ValidatingAdmissionPolicy refuses.
fn denied(what: &str) -> String {
    format!(
        "{what} is forbidden: ValidatingAdmissionPolicy 'team' with binding 'team' denied request: label team is missing"
    )
}

/// True for a resource that no pod requests.
fn is_of_objects(resource: &str) -> bool {
    resource == JOBS || resource == PODS || SERVICES.contains(&resource)
}

/// As kube-apiserver, 1.31 as 1.37, says it, with plain numbers.
fn exceeded(what: &str, resource: &str, (requested, used, hard): (i64, i64, i64)) -> String {
    format!(
        "{what} is forbidden: exceeded quota: small, requested: {resource}={requested}, used: {resource}={used}, \
         limited: {resource}={hard}"
    )
}

fn terminating(what: &str, namespace: &Name) -> String {
    format!(
        "{what} is forbidden: unable to create new content in namespace {namespace} because it is being terminated"
    )
}
