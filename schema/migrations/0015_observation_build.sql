-- What a measured run tells depends on how GROMACS was built: a build for narrow vector instructions is up to four times slower.

alter table gromacs_observation
    add column gromacs_build jsonb,
    add constraint gromacs_observation_build_valid check (jsonb_typeof(gromacs_build) = 'object');
comment on column gromacs_observation.gromacs_build is 'How GROMACS was built, as the tuner''s requests describe it; null if that is not known.';
