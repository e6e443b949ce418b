//! The columns of a row: this table is the one place that describes a column.
//!
//! The SQL of the table and its reference page are generated from it (`cargo xtask generate`). What people give for a row
//! ([`NewRow`], [`Edit`]), its statements, the columns of CSV files and the options of `add` and `edit` follow from it when the
//! programs run.

use std::collections::BTreeSet;

use super::column::{Column, EARLY, LATE, column};
use super::value::{Cell, Labels, Moment, Value};
use crate::bounds;

/// The type of a column in an [`Edit`]: its own, unless another one stands behind it.
macro_rules! edited {
    ($type:ty) => {
        $type
    };
    ($type:ty | $edited:ty) => {
        $edited
    };
}

/// A path on the volume, relative to its root: 900 bytes leave room for the mount path and the working directory in the 1024
/// that a ScavengerJob's workingDir may have.
macro_rules! path {
    ($column:literal, $ending:literal) => {
        concat!(
            "octet_length(",
            $column,
            ") <= 900 and ",
            $column,
            " !~ '[[:cntrl:]]' and ",
            $column,
            " !~ '^/' and ",
            $column,
            " !~ '//' and ",
            $column,
            " !~ '(^|/)\\.\\.?(/|$)' and ",
            $column,
            " ~ '[^/]\\.",
            $ending,
            "$'"
        )
    };
}

/// A folder on the volume, by the same rules.
macro_rules! folder {
    ($column:literal) => {
        concat!(
            "octet_length(",
            $column,
            ") between 1 and 900 and ",
            $column,
            " !~ '[[:cntrl:]]' and ",
            $column,
            " !~ '(^|/)(\\.\\.?)?(/|$)'"
        )
    };
}

macro_rules! path_message {
    ($column:literal, $ending:literal, $example:literal) => {
        concat!(
            $column,
            " must be the path of a .",
            $ending,
            " file relative to the root of the volume, at most 900 bytes, without \
            '..', '//' and control characters, for example ",
            $example
        )
    };
}

/// Words of a program's options. Which options these are, the submitter knows.
macro_rules! words {
    ($column:literal) => {
        concat!(
            "cardinality(",
            $column,
            ") <= 100 and coalesce(array_ndims(",
            $column,
            "), 1) = 1 and array_position(",
            $column,
            ", null) is null and octet_length(",
            $column,
            "::text) <= 8192"
        )
    };
}

macro_rules! words_message {
    ($column:literal, $example:literal) => {
        concat!(
            $column,
            " must be a list of at most 100 words, together at most 8192 bytes, such as ",
            $example
        )
    };
}

/// Labels as those of a node are, at most 32 of them: the program that reads a row relies on it.
macro_rules! node_labels {
    ($column:literal, $otherwise:literal) => {
        concat!(
            "case when jsonb_typeof(", $column, ") = 'object' then
            jsonb_array_length(jsonb_path_query_array(", $column, ", '$.keyvalue()')) <= 32
            and not jsonb_path_exists(", $column, ", '$.* ? (@.type() != \"string\")')
            and not jsonb_path_exists(", $column, ", '$.keyvalue().value
                ? (!(@ like_regex \"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$\"))')
            and not jsonb_path_exists(", $column, ", '$.keyvalue().key
                ? (!(@ like_regex \"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$\"))')
        else ", $otherwise, " end"
        )
    };
}

macro_rules! node_labels_message {
    ($column:literal) => {
        concat!(
            $column,
            " must be an object of at most 32 labels of a node, such as {\"kubernetes.io/arch\": \"amd64\"}"
        )
    };
}

/// Makes the types from the table.
macro_rules! table {
    (
        required { $($required:ident: $required_type:ty = $required_column:expr;)* }
        given { $($given:ident: $given_type:ty $(| $edit_type:ty)? = $given_column:expr;)* }
        ladder_settings { $($ladder:ident: $ladder_type:ty = $ladder_column:expr;)* }
        system { $($system:ident: $system_type:ty = $system_column:expr;)* }
        sql_alone { $($other:ident: $other_type:ty = $other_column:expr;)* }
    ) => {
        /// The columns that people give by SQL alone.
        pub static OF_SQL: &[Column] = &[
            $($other_column.of(stringify!($other), <$other_type as Cell>::KIND),)*
        ];

        /// Every other column that people may give, in the order in which they meet them.
        pub static COLUMNS: &[Column] = &[
            $($required_column.required().of(stringify!($required), <$required_type as Cell>::KIND),)*
            $($given_column.of(stringify!($given), <$given_type as Cell>::KIND),)*
            $($ladder_column.of(stringify!($ladder), <$ladder_type as Cell>::KIND),)*
            $($system_column.of(stringify!($system), <$system_type as Cell>::KIND),)*
        ];

        /// How configurations are chosen, as far as it is said: columns of a row, and what its ScavengerPool says of the same.
        #[derive(Debug, Clone, Copy, Default, PartialEq, sqlx::FromRow)]
        #[allow(missing_docs, reason = "the table says what each is")]
        pub struct LadderSettings {
            $(pub $ladder: Option<$ladder_type>,)*
        }

        impl LadderSettings {
            /// What this says, and what `other` says where this says nothing.
            #[must_use]
            pub fn or(&self, other: &Self) -> Self {
                Self { $($ladder: self.$ladder.or(other.$ladder),)* }
            }

            /// The columns that it says.
            pub fn said(&self) -> impl Iterator<Item = &'static str> + use<> {
                [$(self.$ladder.is_some().then_some(stringify!($ladder)),)*].into_iter().flatten()
            }

            fn values(&self) -> impl Iterator<Item = Option<Value>> + use<> {
                [$(self.$ladder.map(Cell::into_value),)*].into_iter()
            }

            fn set(&mut self, name: &str, value: Value) {
                match name {
                    $(stringify!($ladder) => self.$ladder = Cell::from_value(value),)*
                    _ => {}
                }
            }
        }

        /// The columns that describe the system: given by the user, else found by the inspection.
        #[derive(Debug, Clone, Default, PartialEq, sqlx::FromRow)]
        #[allow(missing_docs, reason = "the table says what each is")]
        pub struct System {
            $(pub $system: Option<$system_type>,)*
        }

        impl System {
            /// Names and values of its columns, those that are not known as well.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, Option<Value>)> + use<> {
                [$((stringify!($system), self.$system.clone().map(Cell::into_value)),)*].into_iter()
            }

            fn set(&mut self, name: &str, value: Value) {
                match name {
                    $(stringify!($system) => self.$system = Cell::from_value(value),)*
                    _ => {}
                }
            }

            /// What the columns hold after a file with these values was read. `given` are the columns until then, and `before` is
            /// what the reading before found: a column that differs from that was given by the user, and stays.
            #[must_use]
            pub fn kept_from(&self, given: &Self, before: &Self) -> Self {
                Self {
                    $($system: if given.$system.is_some() && given.$system != before.$system {
                        given.$system.clone()
                    } else {
                        self.$system.clone()
                    },)*
                }
            }
        }

        /// What a user may say when a row is added; everything else has a default.
        #[derive(Debug, Clone, Default, PartialEq)]
        #[allow(missing_docs, reason = "the table says what each is")]
        pub struct NewRow {
            $(pub $required: $required_type,)*
            $(pub $given: Option<$given_type>,)*
            pub ladder_settings: LadderSettings,
            pub system: System,
        }

        impl NewRow {
            /// Every column with its value, none where none is given.
            pub fn values(&self) -> impl Iterator<Item = (&'static Column, Option<Value>)> + use<> {
                let given = [
                    $(Some(self.$required.clone().into_value()),)*
                    $(self.$given.clone().map(Cell::into_value),)*
                ];
                let system = self.system.values().map(|(_, value)| value);
                COLUMNS.iter().zip(given.into_iter().chain(self.ladder_settings.values()).chain(system))
            }

            /// Gives a column its value.
            pub fn set(&mut self, name: &str, value: Value) {
                match name {
                    $(stringify!($required) => self.$required = Cell::from_value(value).unwrap_or_default(),)*
                    $(stringify!($given) => self.$given = Cell::from_value(value),)*
                    $(stringify!($ladder) => self.ladder_settings.set(name, value),)*
                    _ => self.system.set(name, value),
                }
            }
        }

        /// New values for a row that is there; what is none stays. The database refuses what it lets nobody change.
        #[derive(Debug, Clone, Default, PartialEq)]
        #[allow(missing_docs, reason = "the table says what each is")]
        pub struct Edit {
            $(pub $given: Option<edited!($given_type $(| $edit_type)?)>,)*
            pub ladder_settings: LadderSettings,
            /// Columns that are taken back: they become null, or what a row has that is added without them.
            pub unset: BTreeSet<&'static str>,
        }

        impl Edit {
            /// The columns that get a new value.
            pub fn values(&self) -> impl Iterator<Item = (&'static Column, Value)> + use<> {
                let given = [$(self.$given.clone().map(Cell::into_value),)*];
                let columns = COLUMNS.iter().filter(|column| !column.is_required);
                let values = columns.zip(given.into_iter().chain(self.ladder_settings.values()));
                values.filter_map(|(column, value)| value.map(|value| (column, value)))
            }

            /// Gives a column a new value.
            pub fn set(&mut self, name: &str, value: Value) {
                match name {
                    $(stringify!($given) => self.$given = Cell::from_value(value),)*
                    _ => self.ladder_settings.set(name, value),
                }
            }
        }
    };
}

table! {
    required {
        namespace: String = column("Kubernetes namespace it runs in.")
            .valid("namespace ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'",
                "namespace must be the name of a Kubernetes namespace: lower case letters, digits and '-', at most 63")
            .flag("namespace", "NAMESPACE").short('n').env("SCAVENGER_SUBMITTER_NAMESPACE")
            .add("Run in NAMESPACE");
        persistent_volume_claim: String = column("PersistentVolumeClaim of that namespace with the .tpr file; results are written there, into the folder gromacs-<id> beside the file.")
            .valid("length(persistent_volume_claim) <= 253
        and persistent_volume_claim ~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'",
                "persistent_volume_claim must be the name of a PersistentVolumeClaim: lower case letters, digits, '-' and '.'")
            .flag("persistent-volume-claim", "NAME").alias("pvc").env("SCAVENGER_SUBMITTER_PVC")
            .add("Find the files on the PersistentVolumeClaim NAME");
        tpr_path: String = column("Path of the .tpr file, relative to the root of the volume. With multidir its folder holds the folders of the simulations, and each of these a file of that name. A calibration makes its own: calibration-<id>/water.tpr. A command has none: its working directory stands there, gromacs-<id> in folder.")
            .valid(concat!("kind = 'command' or (", path!("tpr_path", "tpr"), ")"), path_message!("tpr_path", "tpr", "water/topol.tpr"))
            .before(21, "Path of the .tpr file, relative to the root of the volume. With multidir its folder holds the folders of the simulations, and each of these a file of that name. A calibration makes its own: calibration-<id>/water.tpr.",
                path!("tpr_path", "tpr"));
    }
    given {
        // What a folder may be called, a trigger says in full; the check keeps the shape of what others write.
        multidir: Vec<String> = column("Folders of several simulations that the row computes side by side, relative to the folder of tpr_path, such as {sim0,sim1,sim2,sim3}; 2 to 32. Each holds a file and, if the row starts from one, a checkpoint of the names that tpr_path and checkpoint_path end in. Empty for one simulation.").fixed()
            .default("'{}'")
            .valid("cardinality(multidir) <> 1 and cardinality(multidir) <= 32 and coalesce(array_ndims(multidir), 1) = 1
        and array_position(multidir, null) is null",
                "multidir must be a list of 2 to 32 folders, such as {sim0,sim1,sim2,sim3}, or left out");
        command: Vec<String> = column("Program and arguments that the row runs instead of a simulation, each a word of its own, such as {gmx,-nobackup,trjconv,-f,../gromacs-7/traj_comp.xtc,-o,whole.xtc}. No shell reads them. The working directory is gromacs-<id> in folder.")
            .since(21)
            // What a ScavengerJob takes; a $ is written twice there.
            .valid("cardinality(command) between 1 and 256 and array_ndims(command) = 1 and array_lower(command, 1) = 1
        and array_position(command, null) is null and command[1] <> '' and octet_length(replace(command::text, '$', '$$')) <= 16384",
                "command must be a list of 1 to 256 words, together at most 16384 bytes, and the first one, the program, not empty");
        folder: String = column("Folder on the volume in which a command works, relative to the root; it must be there. The root if not given.")
            .since(21).fixed()
            .valid(folder!("folder"),
                "folder must be a folder relative to the root of the volume, at most 900 bytes, without '..', '//', control characters and a '/' at either end, for example water/310K")
            .flag("folder", "FOLDER").heading("Command").place_in_add(LATE)
            .add("Work in FOLDER on the volume, which must be there [default: its root]\n\n\
                The working directory is gromacs-ROW in FOLDER, where ROW is the number of the row. Other files of FOLDER are \
                named from there, such as ../gromacs-7/traj_comp.xtc.");
        cpu_millicores: i32 = column("CPU that a command asks for, in thousandths of a core.")
            .since(21)
            .valid("cpu_millicores between 100 and 1024000 and cpu_millicores <= max_cpu_millicores",
                "cpu_millicores must be between 100 and 1024000 thousandths of a core, and at most max_cpu_millicores of the row or its tenant")
            .flag("cores", "CORES").heading("Command").quantity().place_in_add(LATE).place_in_edit(LATE)
            .both("Ask for this many cores, such as 2 or 0.5");
        memory_bytes: i64 = column("Memory that a command asks for, in bytes. It is killed if it uses more.")
            .since(21)
            .valid("memory_bytes >= 16777216 and memory_bytes <= max_memory_bytes",
                "memory_bytes must be at least 16 MiB, and at most max_memory_bytes of the row or its tenant")
            .flag("memory", "MEMORY").heading("Command").quantity().place_in_add(LATE).place_in_edit(LATE)
            .both("Ask for this much memory, such as 512Mi or 4Gi; it is killed if it uses more");
        image: String = column("Container image with GROMACS; the tenant's, or the submitter's --gromacs-image, if not given.")
            .valid("length(image) between 1 and 1024 and image !~ '[[:space:][:cntrl:]]'",
                "image must be a container image without blanks")
            .flag("image", "IMAGE")
            .add("Run in IMAGE instead of the default")
            .edit("Run in IMAGE; the file is read again with it");
        run_as_user: i64 = column("User id the simulation runs as; it must be able to write beside the .tpr file. The tenant's, or 1000, if not given.").fixed()
            .of_tenant().range(1.0, 2_147_483_647.0, ": nothing runs as root")
            .flag("run-as-user", "UID")
            .add("Run as user UID [default: 1000]");
        run_as_group: i64 = column("Group id the simulation runs as; the tenant's, or run_as_user, if not given.").fixed()
            .range(1.0, 2_147_483_647.0, "")
            .flag("run-as-group", "GID")
            .add("Run as group GID [default: the user's number]");
        engine: String = column("thread-mpi: gmx mdrun, whose ranks are threads; each simulation of multidir is a mdrun of its own. mpi: mpirun gmx_mpi mdrun, a build for library MPI, which runs all simulations of multidir in one mdrun and can exchange them (-replex in mdrun_options). The image must have gmx_mpi and mpirun.")
            .since(23).fixed().default("'thread-mpi'")
            .valid("engine in ('thread-mpi', 'mpi')", "engine must be thread-mpi or mpi")
            .flag("engine", "ENGINE")
            .add("Run gmx mdrun (thread-mpi), or mpirun gmx_mpi mdrun (mpi) of an image with library MPI [default: thread-mpi]\n\n\
                With mpi the simulations of --multidir are one mdrun, which can exchange them: --mdrun-options '-replex 1000'.");
        append: bool = column("True if mdrun goes on in its output files, which it must be able to lock; false if each restart writes new parts (md.part0002.log and so on). The inspection finds out if not given.")
            .flag("append", "BOOL")
            .add("Go on in the output files there are, or write new parts after each interruption [default: what the volume allows]")
            .edit("Go on in the output files there are, or write new parts after each interruption");
        checkpoint_path: String = column("Path of a .cpt file of the same run, relative to the root of the volume, that the simulation starts from; it is copied into the folder of the row, and each start writes new parts of the output. From the beginning if not given.").fixed()
            .valid(path!("checkpoint_path", "cpt"), path_message!("checkpoint_path", "cpt", "water/state.cpt"))
            .flag("checkpoint", "FILE")
            .add("Start from the checkpoint FILE, a path on the volume as PATH is, instead of from the beginning\n\n\
                FILE is of the same run, such as one that began on another machine: mdrun refuses that of another system or of \
                other settings. It stays as it is. The output is written in new parts.");
        mdrun_options: Vec<String> = column("Further options of mdrun and their values, each a word of its own, such as {-dlb,yes,-plumed,meta/plumed.dat}; files are named relative to the root of the volume. docs/rows.md lists them.")
            .default("'{}'").valid(words!("mdrun_options"), words_message!("mdrun_options", "{-dlb,yes}"))
            .flag("mdrun-options", "OPTIONS").hyphens()
            .add("Give mdrun these further options, in one text: '-dlb yes -plumed meta/plumed.dat'\n\n\
                Files are named on the volume as PATH is, and must be there when the row begins. Ranks, threads, devices, \
                checkpoints and the length of the run are chosen by the submitter.")
            .edit("Give mdrun these further options, in one text, in the place of those before; none of them with an empty text");
        grompp_options: Vec<String> = column("Options of gmx grompp and their values, each a word of its own, such as {-f,md.mdp,-c,gromacs-6/confout.gro,-p,topol.top}: the .tpr file is made with them in its folder before it is read, as long as nothing has been computed. {after} in a path stands for the row in after. Empty if the file is there.")
            .default("'{}'").valid(words!("grompp_options"), words_message!("grompp_options", "{-f,md.mdp,-c,start.gro,-p,topol.top}"))
            .flag("grompp", "OPTIONS").hyphens().conflicts(&["root", "tpr", "multidir"])
            .add("Make PATH by grompp with these options, in one text: '-f md.mdp -c gromacs-6/confout.gro -p topol.top'\n\n\
                Runs when the row begins, in the folder of PATH, where files are named from. {after} in a path stands for the row of \
                --after, whose results are in the folder gromacs-{after} beside its own .tpr file.")
            .edit("Make the .tpr file by grompp with these options, in one text; with an empty text it is read as it is");
        mdp_options: Labels = column("Settings that grompp reads instead of those of its -f file, names of the .mdp format and texts, such as {\"init-lambda-state\": \"3\"}. They hold for a copy in the folder of the row, changed.mdp; the file stays as it is. Only of a row with grompp_options.")
            .since(24).default("'{}'")
            // A line of the file: a line break would begin another one, and a semicolon a comment.
            .valid("jsonb_typeof(mdp_options) = 'object' and octet_length(mdp_options::text) <= 4096
        and not jsonb_path_exists(mdp_options, '$.* ? (@.type() != \"string\")')
        and not jsonb_path_exists(mdp_options, '$.keyvalue().key ? (!(@ like_regex \"^[A-Za-z][-A-Za-z0-9_]{0,62}$\"))')
        and not jsonb_path_exists(mdp_options, '$.keyvalue().value ? (@ like_regex \"[[:cntrl:];]\")')",
                "mdp_options must be an object of settings of an .mdp file such as {\"init-lambda-state\": \"3\"}, at most 4096 bytes; a name has \
                1 to 63 letters, digits, '-' and '_', and a value no line breaks, other control characters and ';'")
            .flag("mdp", "NAME=VALUE")
            .add("Let grompp read this setting instead of that of its -f file; may be repeated\n\n\
                For rows that differ in a setting alone: --sweep lambda=0..19 --mdp 'init-lambda-state={lambda}'. The file itself stays \
                as it is.")
            .edit("Let grompp read this setting instead of that of its -f file; may be repeated, and replaces what was said before")
            .clear("no-mdp", "Let grompp read its -f file as it is");
        project: String = column("What it belongs to, for filters and for the sums of gromacs-submitter list --by-project.")
            .valid("length(project) between 1 and 100 and project !~ '[[:cntrl:]]'",
                "project must be 1 to 100 characters without control characters")
            .always()
            .flag("project", "PROJECT").place_in_edit(EARLY)
            .add("What the rows belong to")
            .edit("What they belong to from now on");
        labels: Labels = column("Names and values that filters look for, such as {\"T\": \"310\", \"lambda\": \"0.3\"}.")
            .default("'{}'")
            .valid("jsonb_typeof(labels) = 'object' and length(labels::text) <= 4096
        and not jsonb_path_exists(labels, '$.* ? (@.type() != \"string\")')
        and not jsonb_path_exists(labels, '$.keyvalue().key ? (!(@ like_regex \"^[^[:cntrl:]=,]{1,63}$\"))')",
                "labels must be an object of names and texts such as {\"T\": \"310\"}, at most 4096 bytes; a name has 1 to 63 \
                characters, without '=' and ','")
            .always()
            .flag("label", "NAME=VALUE").place_in_edit(EARLY)
            .add("Give the rows this label; may be repeated")
            .edit("Give them this label; may be repeated");
        node_labels: Labels = column("Labels that its node must have, such as {\"node.kubernetes.io/instance-type\": \"c6a.8xlarge\"}: it runs on that kind of node alone, and its configurations are chosen for it. Any node of the pool if empty.")
            .default("'{}'")
            .valid(node_labels!("node_labels", "false"), node_labels_message!("node_labels"))
            .flag("node-label", "NAME=VALUE").heading("Scheduling").place_in_add(EARLY)
            .add("Run only on nodes with this label; may be repeated, then all must be there\n\n\
                A label that tells the kind of hardware, such as node.kubernetes.io/instance-type=c6a.8xlarge. The configurations \
                are chosen for these nodes.")
            .edit("Run only on nodes with this label; may be repeated, and replaces what was said before")
            .clear("any-node", "Run on any node of the pool");
        held: bool = column("True if it is not begun, nor begun again, until it is released.")
            .default("false")
            .flag("hold", "").heading("Scheduling")
            .add("Begin none of them until they are released");
        after: Vec<i64> = column("Rows of the same owner that must be completed before this one begins: its file is not even read before. A row that was removed counts as completed.")
            .default("'{}'")
            .valid("cardinality(after) <= 100 and coalesce(array_ndims(after), 1) = 1 and array_position(after, null) is null",
                "after must be a list of at most 100 numbers of rows, such as {7, 8}")
            .flag("after", "ROW").heading("Scheduling")
            .add("Begin only after the row ROW is completed; may be repeated\n\n\
                Until then not even the file is read, so it may be made meanwhile. If ROW fails or is cancelled, the rows wait \
                for its retry.")
            .edit("Begin only after the row ROW is completed; may be repeated, and replaces what was said before")
            .clear("no-after", "Wait for no other row");
        after_any: Vec<i64> = column("Rows of the same owner that must have ended before this one begins: completed, failed or cancelled. A row that was removed has ended.")
            .since(19).default("'{}'")
            .valid("cardinality(after_any) <= 100 and coalesce(array_ndims(after_any), 1) = 1 and array_position(after_any, null) is null",
                "after_any must be a list of at most 100 numbers of rows, such as {7, 8}")
            .flag("after-any", "ROW").heading("Scheduling")
            .add("Begin only after the row ROW has ended, whether it completed or failed; may be repeated\n\n\
                For rows that sum up what others left, such as an analysis. If ROW is tried again before these rows begin, they wait again.")
            .edit("Begin only after the row ROW has ended, whether it completed or failed; may be repeated, and replaces what was said before")
            .clear("no-after-any", "Wait for the end of no other row");
        // Beyond that programs cannot read a time, and infinity is none.
        deadline: Moment | Option<Moment> = column("When it should be completed. It orders the choice of configurations, and lets the row grow earlier; nothing is stopped for it. No deadline if null.")
            .valid("deadline between '2000-01-01 00:00:00+00' and '9000-01-01 00:00:00+00'",
                "deadline must be a time between the years 2000 and 9000")
            .always()
            .flag("deadline", "TIME").heading("Scheduling").place_in_add(EARLY)
            .add("Try to complete them by TIME, such as 3d from now, 2026-11-28T08:00:00Z, or 2026-11-28 (UTC)\n\n\
                It orders the choice of configurations, and lets a row grow earlier. Nothing is stopped for it: a row that is \
                expected to miss its deadline says so.")
            .edit("Try to complete them by TIME, such as 3d from now, 2026-11-28T08:00:00Z, or 2026-11-28 (UTC)")
            .clear("no-deadline", "Take their deadline away");
        priority: i32 = column("Rows of one owner start in descending priority, then in the order of id.")
            .default("0").range(-1e6, 1e6, "")
            .flag("priority", "NUMBER").heading("Scheduling").hyphens()
            .add("Start before rows of yours of lower priority [default: 0]")
            .edit("Start before rows of yours of lower priority");
        max_cpu_millicores: i32 = column("Most CPU it may ask for, in thousandths of a core; the nodes decide if null.")
            .range(500.0, 1_024_000.0, " thousandths of a core")
            .flag("max-cpu-millicores", "MILLICORES").heading("Scheduling")
            .both("Ask for at most this many thousandths of a core");
        max_memory_bytes: i64 = column("Most memory it may ask for, in bytes; the nodes decide if null.")
            .valid("max_memory_bytes >= 16777216", "max_memory_bytes must be at least 16 MiB")
            .flag("max-memory-bytes", "BYTES").heading("Scheduling")
            .both("Ask for at most this much memory");
        max_gpus: i32 = column("Most GPUs it may ask for; the nodes decide if null.")
            .range(0.0, 16.0, "")
            .flag("max-gpus", "COUNT").heading("Scheduling")
            .both("Ask for at most this many GPUs");
        min_cpu_millicores: i32 = column("Least CPU that it runs with, in thousandths of a core: it waits rather than fall back to less. None if null or 0.")
            .valid("min_cpu_millicores between 0 and 1024000 and min_cpu_millicores <= max_cpu_millicores",
                "min_cpu_millicores must be between 0 and 1024000 thousandths of a core, and at most max_cpu_millicores")
            .flag("min-cpu-millicores", "MILLICORES").heading("Scheduling")
            .both("Wait rather than run with fewer than this many thousandths of a core, 0 for none");
        min_ns_per_day: f64 = column("Least predicted speed that it runs with, in ns of simulated time per day: it waits rather than fall back to a slower configuration. None if null or 0.")
            .range(0.0, 1e6, "")
            .flag("min-ns-per-day", "NS_PER_DAY").heading("Scheduling")
            .both("Wait rather than run with a configuration that is predicted to be slower than this, 0 for none");
        interruption_after_seconds: i32 = column("Seconds of run time between checkpoints: what an interruption can cost at most. 600, or what the tenant's limits make of it, if not given.")
            .of_tenant()
            .valid("interruption_after_seconds between 1 and 604800", "interruption_after_seconds must be between 1 second and 7 days")
            .flag("interruption-after", "TIME").heading("Scheduling").stretch().place_in_edit(LATE)
            .add("Write a checkpoint every TIME [default: 10m]")
            .edit("Write a checkpoint every TIME");
        fallback_after_seconds: i32 = column("Seconds it waits for free capacity before the next smaller configuration is tried; the submitter's --fallback-after if null.")
            .valid("fallback_after_seconds between 1 and 31536000", "fallback_after_seconds must be between 1 second and 1 year")
            .flag("fallback-after", "TIME").heading("Scheduling").stretch().place_in_edit(LATE)
            .both("Try the next smaller configuration after TIME without free capacity");
    }
    // How configurations are chosen is a question of the site and of a simulation: an idle GPU is worth less than a busy one. What
    // a row leaves open the ScavengerPool says, then the tuner, each time the tuner is asked.
    ladder_settings {
        min_efficiency: f64 = column("Share of the best speed per price that the first configuration has at least, 0.01 to 1; that of the pool if null, or the tuner's own.")
            .range_at_once(bounds::MIN_EFFICIENCY.min, bounds::MIN_EFFICIENCY.max, "")
            .flag("min-efficiency", "SHARE").heading("Configurations")
            .both("Begin with the fastest configuration that has at least this share of the best speed per price\n\n\
                Without a GPU that is the parallel efficiency. Counts before the ScavengerPool's spec.configurations; what neither \
                says is the tuner's own.");
        max_configurations: i32 = column("Most configurations that are tried, 1 to 32; those of the pool if null, or the tuner's own.")
            .range_at_once(bounds::MAX_CONFIGURATIONS.min as f64, bounds::MAX_CONFIGURATIONS.max as f64, "")
            .flag("max-configurations", "COUNT").heading("Configurations")
            .both("Try at most COUNT configurations\n\n\
                Counts before the ScavengerPool's spec.configurations; what neither says is the tuner's own.");
        gpu_price: f64 = column("Cores that a GPU counts as; those of the pool if null, or the tuner's own.")
            .range_at_once(bounds::PRICE.min, bounds::PRICE.max, " cores")
            .flag("gpu-price", "CORES").heading("Configurations")
            .both("Count a GPU as this many cores\n\n\
                Lower where GPUs are idle and cores are scarce: it decides how many cores pay beside a GPU. Counts before the \
                ScavengerPool's spec.weights; what neither says is the tuner's own.");
        memory_price: f64 = column("Cores that a GiB of memory counts as; those of the pool if null, or the tuner's own.")
            .range_at_once(bounds::PRICE.min, bounds::PRICE.max, " cores")
            .flag("memory-price", "CORES").heading("Configurations")
            .both("Count a GiB of memory as this many cores\n\n\
                Counts before the ScavengerPool's spec.weights; what neither says is the tuner's own.");
    }
    system {
        atoms: i64 = column("Number of atoms.")
            .range(1.0, 1e9, "");
        box_nm: Vec<f64> = column("Diagonal of the box matrix, three lengths in nm.")
            .valid("cardinality(box_nm) = 3 and 0 < all (box_nm) and 1e6 > all (box_nm) and array_position(box_nm, null) is null",
                "box_nm must be three positive lengths in nm");
        nsteps: i64 = column("Steps to do.")
            .valid("nsteps >= 0", "nsteps must not be negative: a simulation without an end never completes");
        init_step: i64 = column("Number of the first step (0 unless the .tpr continues another run); the last one is init_step + nsteps.")
            .not_negative();
        dt_ps: f64 = column("Time step in ps.")
            .valid("dt_ps > 0 and dt_ps <= 1", "dt_ps must be above 0 and at most 1 ps");
        cutoff_nm: f64 = column("The larger of rcoulomb and rvdw, in nm.")
            .valid("cutoff_nm > 0 and cutoff_nm <= 5", "cutoff_nm must be above 0 and at most 5 nm");
        rlist_nm: f64 = column("Radius of the pair list in nm; null if mdrun chooses it.")
            .valid("rlist_nm > 0 and rlist_nm <= 10", "rlist_nm must be above 0 and at most 10 nm");
        nstlist: i32 = column("Steps between pair searches; null if mdrun chooses it.")
            .range(1.0, 1000.0, "");
        pme_grid: Vec<i32> = column("Points of the PME grid along x, y and z; null without PME.")
            .valid("cardinality(pme_grid) = 3 and 4 <= all (pme_grid) and 4096 >= all (pme_grid)
        and array_position(pme_grid, null) is null",
                "pme_grid must be three numbers between 4 and 4096");
        pme_order: i32 = column("PME interpolation order; null without PME.")
            .range(3.0, 12.0, "");
        bonded_interactions: i64 = column("Bonded interactions per step.")
            .not_negative();
        constraints: i64 = column("Constraints, three per rigid water molecule included.")
            .not_negative();
        gpu_nonbonded: bool = column("True if short-range interactions may be computed on a GPU.");
        gpu_pme: bool = column("True if PME may be computed on a GPU.");
        gpu_bonded: bool = column("True if bonded interactions may be computed on a GPU.");
        gpu_update: bool = column("True if update and constraints may be computed on a GPU.");
        gromacs_version: String = column("Version of GROMACS in the image.")
            .valid("length(gromacs_version) <= 100", "gromacs_version must be at most 100 characters");
    }
    sql_alone {
        kind: String = column("simulation: computes the .tpr file. calibration: measures how fast a kind of node is. command: runs a command; a row that is added with one is of this kind.").fixed()
            .default("'simulation'")
            .valid("kind in ('simulation', 'calibration', 'command')", "kind must be simulation, calibration or command")
            .before(21, "simulation: computes the .tpr file. calibration: measures how fast a kind of node is.",
                "kind in ('simulation', 'calibration')");
        // The smallest is 2 x 2 x 2 copies of 216 molecules: 3.7 nm, room for a cut-off of 1 nm to either side.
        benchmark_atoms: i32 = column("Atoms of the box of water, about: it is made of whole copies of 648 atoms. Only of a calibration, as all benchmark_ columns; its nsteps are given, too.").fixed()
            .range(5184.0, 1e7, "");
        // A thousand cores, as max_cpu_millicores; mdrun is compiled for at most 128 threads in a rank.
        benchmark_ranks: i32 = column("Thread-MPI ranks of mdrun, those for PME included. It takes a core per rank and thread.").fixed()
            .range(1.0, 1024.0, "");
        benchmark_threads: i32 = column("OpenMP threads of each rank.").fixed()
            .valid("benchmark_threads between 1 and 128 and benchmark_ranks::bigint * benchmark_threads <= 1024",
                "benchmark_threads must be between 1 and 128, and benchmark_ranks times benchmark_threads at most 1024");
        benchmark_pme_ranks: i32 = column("Ranks for PME alone; 0 if not given.").fixed()
            .valid("benchmark_pme_ranks >= 0 and benchmark_pme_ranks <= benchmark_ranks / 2",
                "benchmark_pme_ranks must be between 0 and half of benchmark_ranks");
        benchmark_gpus: i32 = column("GPUs, 0 or 1; 0 if not given.").fixed()
            .valid("benchmark_gpus in (0, 1)", "benchmark_gpus must be 0 or 1");
        benchmark_node_labels: Labels = column("Labels that the node must have, such as {\"node.kubernetes.io/instance-type\": \"c6a.16xlarge\"}; any node of the pool if not given.").fixed()
            .valid(node_labels!("benchmark_node_labels", "benchmark_node_labels is null"),
                node_labels_message!("benchmark_node_labels"));
        extended_nsteps: i64 = column("Set it on a completed row to go on from its checkpoint until it has done so many steps in all, more than nsteps; null if it was never extended. mdrun then reads extended.tpr in the folder of the row.")
            .request().range(1.0, 1e15, "");
        cancel_requested: bool = column("Set it to stop the simulation for good.")
            .request().default("false");
        retry_requested: bool = column("Set it on a failed or cancelled row to go on from its last checkpoint.")
            .request().default("false");
    }
}
