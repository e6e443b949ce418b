#!/bin/bash
# Makes the run inputs of water boxes: DIRECTORY/NAME/NAME.tpr for each box.
#
#   prepare.sh DIRECTORY NAME:EDGE:STEPS...
#
# EDGE is the box's edge in nm (about 100 atoms per cubic nm), STEPS the number of 2 fs steps. A box whose run input
# is there already is left alone, so the script may run again after it was interrupted. It needs gmx in the PATH
# and its .mdp files beside it; THREADS (1 by default) is the number of threads of the minimisation.
set -euo pipefail

inputs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
threads=${THREADS:-1}
log=

fail() {
    echo "prepare.sh: $*" >&2
    if [ -n "$log" ]; then tail -n 25 "$log" >&2; fi
    exit 1
}

# gmx says much, and only its end matters, when it fails.
run_gmx() {
    gmx -nobackup -quiet "$@" >> "$log" 2>&1 || fail "gmx $1 failed"
}

[ $# -ge 2 ] || fail "usage: prepare.sh DIRECTORY NAME:EDGE:STEPS..."
directory=$1
shift
mkdir -p "$directory" || fail "cannot create $directory; may user $(id -u) write to the volume?"

for box in "$@"; do
    IFS=: read -r name edge steps <<< "$box"
    [ -n "${steps:-}" ] || fail "$box is not NAME:EDGE:STEPS"
    target=$directory/$name
    if [ -s "$target/$name.tpr" ]; then
        echo "$name: $target/$name.tpr is there already"
        continue
    fi
    # Everything but the result stays out of the volume.
    work=$(mktemp -d)
    cd "$work"
    log=$work/log
    cat > topol.top <<TOPOLOGY
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
Water, $name
[ molecules ]
TOPOLOGY
    # solvate appends the number of molecules to the topology.
    run_gmx solvate -cs spc216.gro -box "$edge" "$edge" "$edge" -o box.gro -p topol.top
    run_gmx grompp -f "$inputs/em.mdp" -c box.gro -p topol.top -o em.tpr -po em-out.mdp
    run_gmx mdrun -ntmpi 1 -ntomp "$threads" -pin off -deffnm em
    sed "s/@NSTEPS@/$steps/" "$inputs/md.mdp" > md.mdp
    run_gmx grompp -f md.mdp -c em.gro -p topol.top -o "$name.tpr" -po md-out.mdp
    mkdir -p "$target"
    cp "$name.tpr" "$target/$name.tpr.new"
    mv "$target/$name.tpr.new" "$target/$name.tpr"
    atoms=$(sed -n 2p box.gro | tr -d ' ')
    echo "$name: $atoms atoms, $steps steps, $target/$name.tpr"
    cd /
    rm -rf "$work"
    log=
done
