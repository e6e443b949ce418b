#!/bin/sh
# Entry point of the image scavenger.dev/postgres: makes a data directory if there is none, then becomes Postgres.
#
# It runs as the image's user postgres (999), which the pod must not change: initdb wants a user with a name. The
# last line is exec, so Postgres is process 1 and gets the container's stop signal, SIGINT: fast shutdown.
#
#   POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE  password of the superuser, needed for an empty data directory
#   POSTGRES_USER                                the superuser's name; postgres by default
#   POSTGRES_DB                                  a database to create; the superuser's name by default
#   POSTGRES_LOGINS                              a directory with a file for each role that logs in, named like it; the
#                                                file holds its password, which is set at every start
#   PGDATA                                       data directory, below the mounted volume, not the mount itself
#
# Arguments go to postgres: `args: ["-c", "max_connections=50"]`.
set -eu

die() {
    echo "postgres-entrypoint: $*" >&2
    exit 2
}

# Process 1 gets only signals that it handles: without this, a stop during initdb would be lost on the shell, and
# Postgres would start all the same.
trap 'exit 143' TERM INT

user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then
        [ -r "$POSTGRES_PASSWORD_FILE" ] || die "cannot read POSTGRES_PASSWORD_FILE $POSTGRES_PASSWORD_FILE"
        password=$(cat "$POSTGRES_PASSWORD_FILE")
    else
        password=${POSTGRES_PASSWORD:-}
    fi
    [ -n "$password" ] || die "the data directory $PGDATA is empty: set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE"

    # Made under another name and renamed once it is complete: a pod that is killed in between leaves no half of a
    # data directory behind, and the next one starts over.
    new=$PGDATA.new
    rm -rf "$new" || die "cannot write to $(dirname "$PGDATA"); may user $(id -u) write to the volume?"
    mkdir -p "$(dirname "$PGDATA")" 2>/dev/null || true
    (umask 077 && mkdir "$new") || die "cannot create $new; may user $(id -u) write to the volume?"
    # Local connections (kubectl exec) need no password: whoever can run a program here can read the files too.
    printf '%s\n' "$password" |
        initdb --pgdata="$new" --username="$user" --pwfile=/dev/stdin --encoding=UTF8 --locale=C.UTF-8 \
            --auth-local=trust --auth-host=scram-sha-256 --no-instructions >&2
    echo 'host all all all scram-sha-256' >> "$new/pg_hba.conf"
    if [ "$database" != postgres ]; then
        printf 'create database "%s";\n' "$database" |
            postgres --single -D "$new" -c log_min_messages=warning postgres > /dev/null
    fi
    mv "$new" "$PGDATA"
    sync
fi

# With an fsGroup the kubelet makes all of a volume writable for that group whenever it is mounted, and Postgres
# refuses a data directory like that. The five digits also take away the set-group-id bit.
chmod 00700 "$PGDATA" || die "cannot change the mode of $PGDATA; is user $(id -u) its owner?"

# One line is one statement. A statement that fails is not printed: it holds a password.
for file in "${POSTGRES_LOGINS:-/nonexistent}"/*; do
    [ -f "$file" ] || continue
    role=${file##*/}
    case $role in
    *[!a-z0-9_]* | [0-9]*) die "the file $file names no role: lower case letters, digits and _ only" ;;
    esac
    password=$(cat "$file")
    # Neither SQL nor a URL, in which programs put it, gives these another meaning.
    case $password in
    '' | *[!A-Za-z0-9._~-]*) die "the file $file holds no password of letters, digits, '.', '_', '~' and '-'" ;;
    esac
    printf '%s\n%s\n' \
        "do \$\$ begin if not exists (select from pg_roles where rolname = '$role') then create role $role; end if; end \$\$;" \
        "alter role $role login password '$password';" |
        postgres --single -D "$PGDATA" -c log_min_messages=warning -c log_min_error_statement=panic \
            postgres > /dev/null || die "cannot set the password of role $role"
done

# The sockets lie in /tmp, the only directory besides the volume that every pod can write to. The just-in-time
# compiler is not in the image.
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp -c jit=off "$@"
