-- How much a tenant may bring onto a volume with one command (gromacs-submitter put).
alter table gromacs_tenant
    add column max_put_bytes bigint,
    add constraint gromacs_tenant_max_put_bytes_valid check (max_put_bytes >= 1);
comment on column gromacs_tenant.max_put_bytes is 'Most bytes that gromacs-submitter put copies onto a volume at a time; no limit but the space of the volume if null. The command keeps to it; what else can write to the volume does not.';
