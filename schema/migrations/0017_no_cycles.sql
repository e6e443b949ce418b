-- Where the time of a run went teaches the tuner no more than how fast it was.
alter table gromacs_observation drop column cycles;
