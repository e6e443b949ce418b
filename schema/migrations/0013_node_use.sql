-- How fast a core is depends on how many others of its node work. What all pods requested there, the run's own included,
-- goes with what it measured.
alter table gromacs_observation
    add column node_cpu_millicores integer,
    add column node_requested_millicores integer,
    add constraint gromacs_observation_node_cpu_millicores_valid check (node_cpu_millicores > 0),
    add constraint gromacs_observation_node_requested_millicores_valid check (node_requested_millicores >= 0);
comment on column gromacs_observation.node_cpu_millicores is 'CPU of the node for pods, in thousandths of a core; null if not known.';
comment on column gromacs_observation.node_requested_millicores is 'CPU that all pods on the node requested when it began to run, its own included, in thousandths of a core; null if not known.';
