-- Which mdrun runs a simulation: that of thread-MPI, or that of library MPI behind its launcher.

-- Generated from schema/src/row: further columns
alter table gromacs_to_tune
    add column engine text not null default 'thread-mpi',
    add constraint gromacs_to_tune_engine_valid check (engine in ('thread-mpi', 'mpi')),
    add constraint gromacs_to_tune_engine_of_simulation check (engine = 'thread-mpi' or kind = 'simulation');
-- End of what is generated.
-- Generated from schema/src/row: comments
comment on column gromacs_to_tune.engine is 'thread-mpi: gmx mdrun, whose ranks are threads; each simulation of multidir is a mdrun of its own. mpi: mpirun gmx_mpi mdrun, a build for library MPI, which runs all simulations of multidir in one mdrun and can exchange them (-replex in mdrun_options). The image must have gmx_mpi and mpirun.';
-- End of what is generated.
-- Generated from schema/src/row: rights
grant insert (engine) on gromacs_to_tune to gromacs_chemist;
-- End of what is generated.
comment on column gromacs_ladder.layout is 'How mdrun divides them (ntmpi, ntomp, npme, ...); with multidir, how the mdrun of each simulation divides its share. With engine mpi ntmpi counts the processes of each simulation.';
