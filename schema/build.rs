//! A new migration must reach the embedded list without any source file having changed.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
