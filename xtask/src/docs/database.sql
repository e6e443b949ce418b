-- The tables and views of the queue as one JSON document, for the page docs/reference/database.md.
select json_agg(json_build_object(
    'name', c.relname,
    'is_view', c.relkind = 'v',
    'comment', obj_description(c.oid, 'pg_class'),
    'columns', (
        select coalesce(json_agg(json_build_object(
            'name', a.attname,
            'type', format_type(a.atttypid, a.atttypmod),
            'is_required', a.attnotnull and not a.atthasdef and a.attidentity = '',
            'is_nullable', not a.attnotnull,
            'is_numbered', a.attidentity <> '',
            'default', pg_get_expr(d.adbin, d.adrelid),
            'may_insert', has_column_privilege('gromacs_chemist', c.oid, a.attnum, 'insert'),
            'may_update', has_column_privilege('gromacs_chemist', c.oid, a.attnum, 'update'),
            'comment', col_description(c.oid, a.attnum)
        ) order by a.attnum), '[]')
        from pg_attribute a
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ),
    'roles', (
        select json_object_agg(role, rights) from (
            select role, string_agg(lower(privilege), ', ' order by number) as rights
            from unnest(array['gromacs_chemist', 'gromacs_submitter', 'gromacs_tuner', 'gromacs_reader']) as role,
                unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) with ordinality as privilege (privilege, number)
            where has_table_privilege(role, c.oid, privilege)
                or privilege <> 'DELETE' and has_any_column_privilege(role, c.oid, privilege)
            group by role
        ) as of_roles
    ),
    'checks', (
        select coalesce(json_agg(json_build_object('name', k.conname, 'rule', pg_get_constraintdef(k.oid, true))
            order by k.conname), '[]')
        from pg_constraint k
        where k.conrelid = c.oid and k.contype = 'c'
    )
) order by c.relname)
from pg_class c
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v') and c.relname like 'gromacs\_%';
