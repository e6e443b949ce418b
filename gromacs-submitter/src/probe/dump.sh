# What matters in a dump of a run input file, which stands at standard input, as lines key=value. The dump ends before the
# coordinates: awk leaves there, and gmx with it. The command line of the tuner reads files with it, too.
what_a_dump_says() {
    awk -v disabled="${GMX_DISABLE_MODULAR_SIMULATOR+yes}" '
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
'
}
# The same of what `gmx --version` prints.
what_a_version_says() {
    awk '
$1 == "GROMACS" && $2 == "version:" { print "gromacs-version=" $3 }
$1 == "GPU" && $2 == "support:" { print "gpu-support=" $3 }
$1 == "SIMD" && $2 == "instructions:" { print "simd=" $3 }
$1 == "Precision:" { print "precision=" $2 }
$1 == "MPI" && $2 == "library:" { print "mpi=" $3 }
'
}
