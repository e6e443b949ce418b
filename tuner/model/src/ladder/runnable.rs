//! The nodes that can run a build: on the others mdrun ends with an illegal instruction, and the run is lost.
//!
//! The scheduler may choose any node that holds a pod. So where some nodes cannot run the build, each configuration is bound
//! to the others by a label.

use std::borrow::Cow;
use std::cmp::Reverse;

use scavenger_schema::hardware as label;
use scavenger_schema::tuning::{Build, LadderRequest, NodeShape};

use super::bound;
use crate::error::{FieldError, TuneError};
use crate::hardware::{Simd, cpu_from_labels};

/// A label and its value.
pub(crate) type Label = (&'static str, String);

/// The request with the nodes alone that can run its build, and the label that they have and no other node has; none if all
/// nodes can run it.
pub(crate) fn on_runnable(
    request: &LadderRequest,
) -> Result<(Cow<'_, LadderRequest>, Option<Label>), TuneError> {
    let Some(simd) = simd_of(&request.build) else { return Ok((Cow::Borrowed(request), None)) };
    let runs = |node: &&NodeShape| cpu_from_labels(&node.labels).runs(simd);
    let (able, unable): (Vec<&NodeShape>, Vec<&NodeShape>) = request.nodes.iter().partition(runs);
    if unable.is_empty() {
        return Ok((Cow::Borrowed(request), None));
    }
    if able.is_empty() {
        return Err(refused(format!("GROMACS is built for {simd}, and the processor of no node has it")));
    }
    let Some((name, value)) = telling(&able, &unable) else {
        let problem =
            format!("GROMACS is built for {simd}, and no label distinguishes the nodes that have it");
        return Err(refused(problem));
    };
    let is_chosen = |node: &&&NodeShape| node.labels.get(name) == Some(&value);
    let nodes = able.iter().filter(is_chosen).map(|node| (*node).clone()).collect();
    Ok((Cow::Owned(LadderRequest { nodes, ..request.clone() }), Some((name, value))))
}

/// The vector instructions that a request names.
pub(crate) fn simd_of(build: &Build) -> Option<Simd> {
    build.simd.as_deref().and_then(Simd::of_build)
}

/// Why nothing can run.
pub(crate) fn refused(problem: String) -> TuneError {
    TuneError::NothingFits(FieldError::new("build.simd", problem))
}

/// The label that most of `able` have and none of `unable`; of several the first that people would think of.
fn telling(able: &[&NodeShape], unable: &[&NodeShape]) -> Option<Label> {
    let names = || [label::AVX512F, label::AVX2, label::SVE].into_iter().chain(bound::telling());
    let of_node = |node: &&NodeShape| {
        let value = |name: &'static str| Some((name, node.labels.get(name)?.clone()));
        names().filter_map(value).collect::<Vec<_>>()
    };
    let is_telling = |(name, value): &Label| !unable.iter().any(|node| node.labels.get(*name) == Some(value));
    let nodes_with = |(name, value): &Label| {
        let having = able.iter().filter(|node| node.labels.get(*name) == Some(value));
        having.map(|node| u64::from(node.count)).sum::<u64>()
    };
    let place = |name: &str| names().position(|known| known == name);
    let labels = able.iter().flat_map(of_node).filter(is_telling);
    labels.min_by_key(|label| (Reverse(nodes_with(label)), place(label.0), label.1.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use crate::ladder::build;
    use crate::ladder::fixtures::{labelled, node, request, water};

    const ZEN2: &str = "c5a.x";
    const ICE_LAKE: &str = "c6i.x";
    const NONE: &[(&str, &str)] = &[];

    fn asked(simd: &str, nodes: &[(&str, &[(&str, &str)])]) -> LadderRequest {
        let nodes = nodes.iter().map(|(instance, labels)| {
            let labels: Vec<_> =
                [(label::INSTANCE_TYPE, *instance)].into_iter().chain(labels.to_vec()).collect();
            labelled(&node(16_000, 64), &labels, 0)
        });
        let mut request = request(water(100_000), nodes.collect());
        request.build.simd = Some(simd.to_owned());
        request
    }

    #[test]
    fn a_build_that_is_wider_than_a_node_is_never_offered_there() {
        let wide: &[(&str, &str)] = &[(label::AVX512F, "true")];
        for (nodes, (name, value)) in [
            (vec![(ZEN2, NONE), (ICE_LAKE, wide)], (label::AVX512F, "true")),
            (vec![(ZEN2, NONE), (ICE_LAKE, NONE)], (label::INSTANCE_TYPE, ICE_LAKE)),
        ] {
            let rungs =
                build(&Model::prior(), &asked("AVX_512", &nodes)).expect("there should be a ladder").rungs;
            assert!(rungs.len() > 1);
            for rung in rungs {
                assert_eq!(rung.node_labels.get(name).map(String::as_str), Some(value), "{rung:?}");
                assert_eq!(rung.hardware_class, "icelake-sp");
                assert!(rung.reason.contains("AVX_512"), "{}", rung.reason);
            }
            let rungs =
                build(&Model::prior(), &asked("AVX2_256", &nodes)).expect("there should be a ladder").rungs;
            assert!(rungs.iter().any(|rung| rung.node_labels.is_empty()), "all nodes can run it");
        }
    }

    #[test]
    fn a_build_that_no_node_can_run_is_refused() {
        let refusal = |nodes: &[(&str, &[(&str, &str)])]| {
            let error = build(&Model::prior(), &asked("AVX_512", nodes)).expect_err("nothing can run");
            assert_eq!(error.field(), "build.simd");
            error.to_string()
        };
        assert!(refusal(&[(ZEN2, NONE)]).contains("of no node"));
        // A node that has no label of its own cannot be asked for.
        let mut mixed = asked("AVX_512", &[(ZEN2, NONE), (ICE_LAKE, NONE)]);
        mixed.nodes[1].labels.clear();
        mixed.nodes[1].labels.insert(label::CPU_VENDOR.to_owned(), "Intel".to_owned());
        let error = build(&Model::prior(), &mixed).expect_err("nothing distinguishes it");
        assert!(error.to_string().contains("no label"), "{error}");
    }
}
