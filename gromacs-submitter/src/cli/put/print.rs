//! What `put` prints.

use serde_json::{Value, json};

use super::order::Order;
use super::send::Brought;
use crate::cli::copied::{Counts, bytes_of, print_file};
use crate::cli::print_line;
use crate::cli::text::json as print_json;
use crate::config::Output;

/// What became of each file, and a sum.
pub(super) fn print_results(order: &Order, brought: &Brought, output: Output) {
    if output.is_json() {
        return print_line(&print_json(&as_json(order, brought)));
    }
    for (path, (_, fate)) in &brought.files {
        print_file(path, *fate, "here");
    }
    print_line(&summary(order, brought));
}

fn as_json(order: &Order, brought: &Brought) -> Value {
    let files: Vec<Value> = brought
        .files
        .iter()
        .map(|(path, (size, fate))| json!({ "path": path, "size": size, "result": fate.word() }))
        .collect();
    json!({ "persistent_volume_claim": order.claim, "files": files, "bytes_left": brought.left })
}

/// `copied 3 files, 1,234 bytes; 1 file had the same content already; PersistentVolumeClaim simulations has 5,678 bytes left`.
pub(crate) fn summary(order: &Order, brought: &Brought) -> String {
    let mut counts = Counts::default();
    for (size, fate) in brought.files.values() {
        counts.add(*size, *fate);
    }
    let mut sum = counts.sum(order.dry_run, "");
    sum.push_str(&format!(
        "; PersistentVolumeClaim {} has {} bytes left",
        order.claim,
        bytes_of(brought.left)
    ));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::copied::Fate;

    #[test]
    fn the_sum_says_what_is_left() {
        let order = Order { claim: "simulations".to_owned(), ..Order::default() };
        let files = [("a", 1500, Fate::Copied), ("b", 500, Fate::Copied), ("c", 7, Fate::Unchanged)];
        let files = files.map(|(path, size, fate)| (path.to_owned(), (size, fate)));
        let brought = Brought { files: files.into(), left: 4096 };
        assert_eq!(
            summary(&order, &brought),
            "copied 2 files, 2,000 bytes; 1 file had the same content already; PersistentVolumeClaim simulations has \
             4,096 bytes left"
        );
        assert_eq!(
            as_json(&order, &brought)["files"][2],
            json!({ "path": "c", "size": 7, "result": "unchanged" })
        );
    }
}
