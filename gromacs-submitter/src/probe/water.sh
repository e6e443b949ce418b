# Makes the run input of a box of water. $1: the .tpr file to write, $2: the working directory, $3 $4 $5: copies of
# GROMACS's own box of 216 molecules along x, y and z, $6: steps, $7: UUID of the row. The inspection of what was made follows.
make_folder "$2" "$7"
cd -- "$2" || exit 5
# Exactly one copy of the equilibrated box, stacked: there are no seams, so nothing has to be minimised.
gmx -quiet -nobackup solvate -cs spc216.gro -box 1.86206 1.86206 1.86206 -o cell.gro >&2 || exit 8
gmx -quiet -nobackup genconf -f cell.gro -nbox "$3" "$4" "$5" -o box.gro >&2 || exit 8
cat >topol.top <<TOPOLOGY
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
SOL $((216 * $3 * $4 * $5))
TOPOLOGY
# The usual settings of a simulation, as the tuner's proposal reckons with; the seed makes it the same each time.
cat >grompp.mdp <<SETTINGS
integrator = md
dt = 0.002
nsteps = $6
gen-vel = yes
gen-temp = 300
gen-seed = 42
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 1.0
rvdw = 1.0
fourierspacing = 0.12
pme-order = 4
DispCorr = EnerPres
constraints = h-bonds
tcoupl = v-rescale
tc-grps = System
tau-t = 1.0
ref-t = 300
SETTINGS
gmx -quiet -nobackup grompp -f grompp.mdp -c box.gro -p topol.top -o new.tpr -po mdout.mdp >&2 || exit 8
rm -f cell.gro box.gro topol.top grompp.mdp mdout.mdp
# Whole or not at all: it may be interrupted at any instant, and is then made again.
mv -f -- new.tpr "$1" || exit 6
# A calibration runs this file, and no copy of it.
set -- "$1" "$2"
