# $1: the .tpr file, $2: the working directory of the simulation, $3: whose it is, if that matters, $4: steps in all if the
# simulation is extended, else -, $5: the checkpoint that it starts from, or -, $6: name of the copy in the working directory
# that it has run so far, or -, further: files that mdrun reads. Run by sh -c; no user's string is ever part of it.
source=$1
# A row whose file is gone by now still has the copy that it has run so far.
if ! [ -f "$1" ] && [ "${6:--}" != - ] && [ -f "$2/$6" ]; then source=$2/$6; fi
if ! [ -f "$source" ]; then
    # It says so if the file system is away.
    ls -d -- "$1" >/dev/null
    echo "there is no file $1 on the volume" >&2
    exit 4
fi
make_folder "$2" "${3-}"
# What the simulation has written itself since it started goes before the checkpoint that it started from.
if [ "${5:--}" != - ] && ! [ -e "$2/state.cpt" ] && ! [ -e "$2/state_prev.cpt" ]; then
    if ! [ -f "$5" ]; then
        echo "there is no checkpoint $5 on the volume" >&2
        exit 4
    fi
    cp -- "$5" "$2/new.cpt" || exit 6
    # Once it has the name, it is not copied again.
    if ! is_whole "$2/new.cpt"; then
        rm -f -- "$2/new.cpt"
        printf '\nFatal error:\nGROMACS cannot read checkpoint %s; put one there that the image can read, and retry\n\n' "$5" >&2
        exit 4
    fi
    mv -f -- "$2/new.cpt" "$2/state.cpt" || exit 6
fi
number=0
for further; do
    number=$((number + 1))
    if [ "$number" -gt 6 ] && ! [ -f "$further" ]; then
        echo "there is no file $further on the volume" >&2
        exit 4
    fi
done
# mdrun reads its file at each start, and the user's may be another one by then: so it runs a copy in the folder of the row,
# which is also what is read here. No link: `cp` writes into the file that it finds. The name says of which file it is a copy:
# the one that was run so far stays until the row has taken another one. A calibration is nobody's, and its file its own.
file=$source run=
sum=$(sum_of "$source")
if [ -n "${3-}" ]; then
    run=${RUN_INPUT_NAME:-run-$sum.tpr}
    file=$2/$run
    if ! [ -f "$file" ] || [ "$(sum_of "$file")" != "$sum" ]; then
        # At no cost where the file system can share blocks. The copy has the modes of the user's file, whose owner is another.
        rm -f -- "$2/new.tpr"
        if ! { cp --reflink=auto -- "$source" "$2/new.tpr" 2>/dev/null || cp -- "$source" "$2/new.tpr"; } \
            || { ! chmod u+rw -- "$2/new.tpr" 2>/dev/null && ! [ -r "$2/new.tpr" ]; }; then
            rm -f -- "$2/new.tpr"
            exit 6
        fi
        if [ "$(sum_of "$2/new.tpr")" != "$sum" ]; then
            rm -f -- "$2/new.tpr"
            echo "$source changed while it was copied; retry when it is complete" >&2
            exit 4
        fi
        mv -f -- "$2/new.tpr" "$file" || exit 6
    fi
    for old in "$2"/run-*-*.tpr; do
        case $old in "$file" | "$2/${6:--}") ;; *) rm -f -- "$old" ;; esac
    done
fi
# A simulation that is extended goes on from its checkpoint, with a file that has more steps. It is made each time, whole or not
# at all, so that it can be made again.
if [ "${4:--}" != - ]; then
    if ! [ -f "$2/state.cpt" ] && ! [ -f "$2/state_prev.cpt" ]; then
        echo "there is no checkpoint $2/state.cpt on the volume to go on from; put it back, and retry" >&2
        exit 4
    fi
    gmx -quiet -nobackup convert-tpr -s "$file" -nsteps "$4" -o "$2/new.tpr" </dev/null >&2 || exit 8
    file=$2/extended.tpr
    mv -f -- "$2/new.tpr" "$file" || exit 6
fi
# mdrun appends only to a file that it can lock. A file that nobody else has can be locked wherever locks work.
locks=unknown
if command -v flock >/dev/null 2>&1; then
    touch -- "$2/.lock-$$" || exit 6
    if flock -n "$2/.lock-$$" true 2>/dev/null; then locks=yes; else locks=no; fi
    rm -f -- "$2/.lock-$$"
fi
# The dump ends before the coordinates: awk leaves there, and gmx with it. The exit code is awk's.
found=$(gmx -quiet dump -s "$file" | awk -v disabled="${GMX_DISABLE_MODULAR_SIMULATOR+yes}" '
BEGIN {
    split("integrator dt nsteps init-step nstlist rlist verlet-buffer-tolerance coulombtype vdw-type rcoulomb rvdw" \
        " fourier-nx fourier-ny fourier-nz pme-order tcoupl pcoupl free-energy pull awh mts nwall simulation-part #atoms" \
        " cutoff-scheme lj-pme-comb-rule epsilon-surface rotation swapcoords cos-acceleration constraint-algorithm" \
        " simulated-tempering vdw-modifier mts-level2-factor mts-level2-forces nstxout nstvout nstfout nstxout-compressed",\
        names, " ")
    for (i in names) wanted[names[i]] = 1
    split("Bond:3,G96Bond:3,Morse:3,Cubic Bonds:3,Harmonic Pot.:3,FENE Bonds:3,Angle:4,G96Angle:4,U-B:4,Quartic Angles:4," \
        "Restricted Angles:4,Restr. Angles:4,Lin. Angle:4,Tab. Bonds:3,Tab. Angles:4,Tab. Dih.:5,CBT Dih.:5," \
        "Restricted Dih.:5,Restr. Dih.:5,Proper Dih.:5,Ryckaert-Bell.:5,Fourier Dih.:5,Improper Dih.:5," \
        "Per. Imp. Dih.:5,CMAP Dih.:6,LJ-14:3", kinds, ",")
    for (i in kinds) { split(kinds[i], pair, ":"); size[pair[1]] = pair[2] }
}
/^ *x \(/ { exit }
$1 == "moltype" && $2 == "=" { block = $3; next }
$1 == "#molecules" && $2 == "=" { molecules[block] += $3; next }
/^ *atom\[.*typeB=/ {
    sub(/^[^{]*[{]/, ""); gsub(/ /, ""); split($0, field, /[,=}]/)
    if (field[2] != field[4] || field[8] != field[12] || field[10] != field[14]) perturbed += molecules[molecule]
    next
}
$1 == "moltype" { molecule = substr($2, 2) + 0; kind = ""; bonds = 0; next }
/^ +[A-Z][^=]*:$/ { kind = $0; sub(/^ +/, "", kind); sub(/:$/, "", kind); next }
$1 == "nr:" {
    if (kind in size) bonded += $2 / size[kind] * molecules[molecule]
    if (kind == "Constraint") constraints += $2 / 3 * molecules[molecule]
    # What keeps the update off a GPU. Constraints hang together where they replace the bonds between heavy atoms, too.
    if ($2 > 0 && kind ~ /^Vir[tual.]* site/) obstacle["virtual-sites"] = 1
    if ($2 > 0 && kind ~ /Pol/) obstacle["shells"] = 1
    if ($2 > 0 && kind ~ /^Orient/) obstacle["orientation-restraints"] = 1
    if ($2 > 0 && kind ~ /^Dis[.] Rest/) legacy["distance-restraints"] = 1
    if (kind == "Bond" || kind == "G96Bond") bonds += $2 / 3
    if (kind == "Constraint" && $2 / 3 > 256 && 2 * bonds < $2 / 3) obstacle["coupled-constraints"] = 1
    if (kind == "Settle") constraints += $2 / 4 * 3 * molecules[molecule]
    kind = ""
    next
}
$2 == "=" && ($1 in wanted) && !($1 in value) { value[$1] = $3; next }
# What the modular simulator does not know, beside some of those obstacles.
$1 == "interactiveMD" && $3 == "true" { legacy["interactive-md"] = 1; next }
$1 == "annealing:" { for (i = 2; i <= NF; i++) if ($i != "No") legacy["annealing"] = 1; next }
# What a module costs nobody knows.
/^ +[a-z][a-z0-9-]*:$/ { module = $1; sub(/:$/, "", module) }
$1 == "active" && $3 == "true" { modules = modules (modules == "" ? "" : ",") module; next }
$1 == "QMMM" && $3 == "true" { modules = modules (modules == "" ? "" : ",") "qmmm"; next }
$1 == "nfreeze:" && / Y/ { obstacle["frozen-atoms"] = 1; next }
$1 == "acc:" { for (i = 2; i <= NF; i++) if ($i + 0 != 0) obstacle["acceleration"] = 1; next }
/^ *energygrp-flags\[/ { groups++; next }
/^ *deform\[/ { sub(/^[^{]*[{]/, ""); if ($0 ~ /[1-9]/) obstacle["deformation"] = 1; next }
/^ *box\[/ { gsub(/[]{},=[]/, " "); box[$2 + 0] = $(3 + $2) }
END {
    if (!("#atoms" in value) || !("integrator" in value)) exit 7
    print "inspection=1"
    for (name in value) { key = name; sub(/^#/, "", key); print key "=" value[name] }
    printf "bonded=%d\nconstraints=%d\n", bonded, constraints
    if (perturbed > 0) printf "perturbed-atoms=%d\n", perturbed
    if (modules != "") print "modules=" modules
    for (name in obstacle) obstacles = obstacles (obstacles == "" ? "" : ",") name
    printf "energy-groups=%d\nupdate-obstacles=%s\n", groups, obstacles == "" ? "none" : obstacles
    # It matters to an expanded ensemble alone, and the answer is short.
    if (disabled != "") legacy["disabled"] = 1
    for (name in legacy) list = list (list == "" ? "" : ",") name
    if (list != "" && (value["free-energy"] == "expanded" || value["simulated-tempering"] == "true"))
        print "legacy-simulator=" list
    if (2 in box) print "box=" box[0] "," box[1] "," box[2]
}
') || exit 7
build=$(gmx --version 2>/dev/null | awk '
$1 == "GROMACS" && $2 == "version:" { print "gromacs-version=" $3 }
$1 == "GPU" && $2 == "support:" { print "gpu-support=" $3 }
$1 == "SIMD" && $2 == "instructions:" { print "simd=" $3 }
$1 == "Precision:" { print "precision=" $2 }
$1 == "MPI" && $2 == "library:" { print "mpi=" $3 }
')
# The checksum is of the file as the user made it: what convert-tpr makes of it differs, though nothing in it does.
# A script is process 1 in the place of mdrun.
launcher=
if [ "$(dd if="$(command -v gmx)" bs=2 count=1 2>/dev/null | tr -d '\000')" = '#!' ]; then launcher="launcher=script
"; fi
if [ -n "${made-}" ]; then found="$found
made=$made"; fi
if [ -n "$run" ]; then found="$found
run-input=$run"; fi
found="$found
$build
${launcher}locks=$locks
tpr-checksum=$sum"
printf '%s\n' "$found"
printf '%s\n' "$found" >"${TERMINATION_LOG:-/dev/termination-log}"
