#!/bin/sh
# Makes the run inputs of the systems beside this script: DIRECTORY/NAME/NAME.tpr for each NAME.mdp.
#
#   make.sh DIRECTORY [NAME...]
#
# The second line of a .mdp file names what the system is made of (`; of: water`). Everything is small: a run takes a
# second or two. It needs gmx in the PATH, and of GROMACS's data only the boxes of water and one force field.
set -eu

inputs=$(cd "$(dirname "$0")" && pwd)
directory=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# gmx says much, and only its end matters, when it fails.
run_gmx() {
    gmx -nobackup -quiet "$@" >"$work/log" 2>&1 </dev/null || {
        tail -n 25 "$work/log" >&2
        echo "gmx $1 failed for $name" >&2
        exit 1
    }
}

# Beads with and without charges. C1 to C4 are the united atoms of a chain, DU is what a perturbed atom becomes.
force_field() {
    cat <<'TOPOLOGY'
[ defaults ]
1 2 yes 0.5 0.5
[ atomtypes ]
AR  18  39.948  0.0  A  0.34  0.996
KR  36  83.798  0.0  A  0.36  1.370
C3   6  15.035  0.0  A  0.3905  0.7322
C2   6  14.027  0.0  A  0.3905  0.4937
NA  11  22.990  0.0  A  0.25  0.4
CL  17  35.453  0.0  A  0.40  0.4
DU   0  14.027  0.0  A  0.0  0.0
[ moleculetype ]
AR 1
[ atoms ]
1 AR 1 AR AR 1 0.0
[ moleculetype ]
KR 1
[ atoms ]
1 KR 1 KR KR 1 0.0
[ moleculetype ]
NA 1
[ atoms ]
1 NA 1 NA NA 1 1.0
[ moleculetype ]
CL 1
[ atoms ]
1 CL 1 CL CL 1 -1.0
; Butane of united atoms.
[ moleculetype ]
BUT 3
[ atoms ]
1 C3 1 BUT C1 1 0.0
2 C2 1 BUT C2 1 0.0
3 C2 1 BUT C3 1 0.0
4 C3 1 BUT C4 1 0.0
[ bonds ]
1 2 1 0.153 224262
2 3 1 0.153 224262
3 4 1 0.153 224262
[ angles ]
1 2 3 1 112.0 519.65
2 3 4 1 112.0 519.65
[ dihedrals ]
1 2 3 4 3 9.28 12.16 -13.12 -3.06 26.24 -31.5
[ position_restraints ]
#ifdef POSRES
1 1 1000 1000 1000
4 1 1000 1000 1000
#endif
[ distance_restraints ]
#ifdef DISRES
1 4 1 0 1 0.3 0.45 0.6 1.0
#endif
; Butane whose last atom vanishes.
[ moleculetype ]
MUT 3
[ atoms ]
1 C3 1 MUT C1 1 0.0 15.035
2 C2 1 MUT C2 1 0.0 14.027
3 C2 1 MUT C3 1 0.0 14.027
4 C3 1 MUT C4 1 0.0 15.035 DU 0.0 15.035
[ bonds ]
1 2 1 0.153 224262
2 3 1 0.153 224262
3 4 1 0.153 224262 0.140 224262
[ angles ]
1 2 3 1 112.0 519.65
2 3 4 1 112.0 519.65
; A rod: two beads, and in its middle a site without mass.
[ moleculetype ]
ROD 3
[ atoms ]
1 AR 1 ROD A 1 0.0
2 AR 1 ROD B 1 0.0
3 DU 1 ROD M 1 0.0 0.0
[ constraints ]
1 2 1 0.3
[ virtual_sites2 ]
3 1 2 1 0.5
[ exclusions ]
1 2 3
2 1 3
3 1 2
TOPOLOGY
}

# $1: name of the residue, $2: names of its atoms with their places, $3: edge of the box; prints a .gro file.
molecule() {
    echo "$1"
    echo "$2" | wc -l
    echo "$2" | awk -v residue="$1" '{ printf "%5d%-5s%5s%5d%8.3f%8.3f%8.3f\n", 1, residue, $1, NR, $2, $3, $4 }'
    echo "$3 $3 $3"
}

butane='C1 0.500 0.500 0.500
C2 0.653 0.500 0.500
C3 0.710 0.642 0.500
C4 0.863 0.642 0.500'

# Copies of a cell, $1 along each edge.
lattice() {
    run_gmx genconf -f cell.gro -nbox "$1" "$1" "$1" -o conf.gro
}

topology() {
    force_field
    printf '[ system ]\n%s\n[ molecules ]\n%s\n' "$name" "$1"
}

water_topology() {
    printf '#include "oplsaa.ff/forcefield.itp"\n#include "oplsaa.ff/%s.itp"\n[ system ]\n%s\n[ molecules ]\nSOL 216\n' "$1" "$name"
}

# Makes conf.gro and topol.top.
system_of() {
    case $1 in
    water) cp "$data/spc216.gro" conf.gro; water_topology spce >topol.top ;;
    tip4p) cp "$data/tip4p.gro" conf.gro; water_topology tip4p >topol.top ;;
    argon)
        molecule AR 'AR 0.1 0.1 0.1' 0.39 >cell.gro
        lattice 6
        topology 'AR 216' >topol.top ;;
    mixture)
        molecule AR 'AR 0.1 0.1 0.1' 0.39 >cell.gro
        lattice 6
        awk 'NR > 2 + 108 && NF > 3 { $0 = substr($0, 1, 5) "KR      KR" substr($0, 16) } { print }' conf.gro >mixed.gro
        mv mixed.gro conf.gro
        topology 'AR 108
KR 108' >topol.top ;;
    salt)
        molecule NA 'NA 0.1 0.1 0.1' 0.45 >cell.gro
        lattice 6
        # Every other one is a chloride; the sorted list has the sodium first.
        { head -n 2 conf.gro; awk 'NR > 2 && NF > 3 && NR % 2' conf.gro
          awk 'NR > 2 && NF > 3 && !(NR % 2) { print substr($0, 1, 5) "CL      CL" substr($0, 16) }' conf.gro
          tail -n 1 conf.gro; } >sorted.gro
        mv sorted.gro conf.gro
        topology 'NA 108
CL 108' >topol.top ;;
    pair)
        molecule AR 'AR 2.0 2.0 2.0
KR 2.5 2.0 2.0' 4.0 | awk 'NR == 4 { $0 = "    2KR      KR" substr($0, 16) } { print }' >conf.gro
        topology 'AR 1
KR 1' >topol.top ;;
    butane) molecule BUT "$butane" 4.0 >conf.gro; topology 'BUT 1' >topol.top ;;
    butanes) molecule BUT "$butane" 1.2 >cell.gro; lattice 3; topology 'BUT 27' >topol.top ;;
    mutants) molecule MUT "$butane" 1.2 >cell.gro; lattice 3; topology 'MUT 27' >topol.top ;;
    rods)
        molecule ROD 'A 0.1 0.1 0.1
B 0.4 0.1 0.1
M 0.25 0.1 0.1' 0.75 >cell.gro
        lattice 4
        topology 'ROD 64' >topol.top ;;
    # A slab between walls.
    slab)
        molecule AR 'AR 0.2 0.2 0.2' 0.4 >cell.gro
        lattice 6
        topology 'AR 216' >topol.top ;;
    *) echo "$name is made of $1, which this script does not know" >&2; exit 1 ;;
    esac
}

# shellcheck disable=SC2046 # the names have no blanks
[ $# -gt 0 ] || set -- $(cd "$inputs" && for file in *.mdp; do echo "${file%.mdp}"; done)
name=GROMACS
data=$(gmx -quiet --version 2>/dev/null | awk '/^Data prefix:/ { print $3 "/share/gromacs/top" }')
for name; do
    cd "$work"
    system_of "$(sed -n '2s/^; of: //p' "$inputs/$name.mdp")"
    run_gmx grompp -f "$inputs/$name.mdp" -c conf.gro -r conf.gro -p topol.top -o run.tpr -po mdout.mdp -maxwarn 4
    mkdir -p "$directory/$name"
    mv run.tpr "$directory/$name/$name.tpr"
done
