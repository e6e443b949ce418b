-- The tuner compares each configuration with those on the same hardware, and prices play no part in it.
comment on column gromacs_ladder.efficiency is 'Parallel efficiency, 0 to 1. Without a GPU: speed per core relative to the best speed per core on the same hardware. With a GPU: speed relative to the best with that GPU.';
