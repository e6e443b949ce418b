//! What the program expects of the kernel, with one cgroup.

use std::fs;

use scavenger_cgroups::cpu::{Cgroup, Done, Wish};

use crate::harness::{Class, Driver, Tree};

#[test]
fn a_weight_is_taken_and_given_back() {
    let Some(tree) = Tree::of_kernel(Driver::Cgroupfs) else { return };
    for (number, class, milli_cpu) in
        [(1, Class::Burstable, 200), (2, Class::Guaranteed, 1_600), (3, Class::BestEffort, 0)]
    {
        let pod = tree.running(class, number, milli_cpu);
        let cgroup = Cgroup::open(&pod.path).unwrap();
        if pod.read("cpu.idle").is_none() {
            eprintln!("this kernel has no cpu.idle; the least weight stands for it");
        } else {
            assert_eq!(cgroup.fulfil(Wish::Idle).unwrap(), Done::MadeIdle);
            // So the kubelet writes first, and the weight is stored.
            assert_eq!(pod.write_weight().unwrap_err().raw_os_error(), Some(nix::libc::EINVAL));
            fs::write(pod.path.join("cpu.idle"), "0").unwrap();
            assert!(!pod.is_as_before(), "the kernel kept the weight");
        }
        cgroup.fulfil(Wish::Idle).unwrap();
        assert!(pod.is_idle());
        // Another process reads the mark, too.
        Cgroup::open(&pod.path).unwrap().fulfil(Wish::Weight(None)).unwrap();
        assert!(pod.is_as_before(), "{class:?}");
        assert_eq!(cgroup.fulfil(Wish::Weight(None)).unwrap(), Done::Same);
    }
}

#[test]
fn without_a_mark_the_request_says_the_weight() {
    let Some(tree) = Tree::of_kernel(Driver::Systemd) else { return };
    let pod = tree.running(Class::Burstable, 1, 1_600);
    if pod.read("cpu.idle").is_some() {
        fs::write(pod.path.join("cpu.idle"), "1").unwrap();
        let cgroup = Cgroup::open(&pod.path).unwrap();
        assert_eq!(cgroup.fulfil(Wish::Weight(None)).unwrap(), Done::Same, "somebody else's");
        cgroup.fulfil(Wish::Weight(Some(1_600))).unwrap();
        assert!(pod.is_as_before());
    }
}
