//! What people change of rows that are there already.

use std::collections::BTreeSet;

use clap::ValueEnum;
use scavenger_schema::simulation::LadderSettings;
use sqlx::types::Json;
use sqlx::{Postgres, QueryBuilder};

use super::{Labels, Moment, Store, StoreError, sql_time};

/// New values; what is none stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Edit {
    /// What it belongs to.
    pub project: Option<String>,
    /// Labels that are added, or get another value.
    pub labels: Option<Labels>,
    /// Container image.
    pub image: Option<String>,
    /// False if each restart writes new output files.
    pub append: Option<bool>,
    /// Further options of mdrun, in the place of what was said before.
    pub mdrun_options: Option<Vec<String>>,
    /// Options of grompp, in the place of what was said before.
    pub grompp_options: Option<Vec<String>>,
    /// Labels that their nodes must have, in the place of those before.
    pub node_labels: Option<Labels>,
    /// When they should be completed; none takes the deadline away.
    pub deadline: Option<Option<Moment>>,
    /// Rows that must be completed before they begin.
    pub after: Option<Vec<i64>>,
    /// Priority among the owner's rows.
    pub priority: Option<i32>,
    /// Most CPU, millicores.
    pub max_cpu_millicores: Option<i32>,
    /// Most memory, bytes.
    pub max_memory_bytes: Option<i64>,
    /// Most GPUs.
    pub max_gpus: Option<i32>,
    /// Least CPU, millicores.
    pub min_cpu_millicores: Option<i32>,
    /// Least predicted speed, ns per day.
    pub min_ns_per_day: Option<f64>,
    /// How their configurations are chosen.
    pub ladder_settings: LadderSettings,
    /// Seconds between checkpoints.
    pub interruption_after_seconds: Option<i32>,
    /// Seconds before it falls back.
    pub fallback_after_seconds: Option<i32>,
    /// What is taken back: the column becomes null, or what a row has that is added without it.
    pub unset: BTreeSet<Unset>,
}

/// What a row need not say, by the name of its option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[allow(missing_docs, reason = "each is an option of `edit`, which describes it")]
pub enum Unset {
    Project,
    Image,
    Append,
    Deadline,
    #[value(alias = "max_cpu_millicores")]
    MaxCpuMillicores,
    #[value(alias = "max_memory_bytes")]
    MaxMemoryBytes,
    #[value(alias = "max_gpus")]
    MaxGpus,
    #[value(alias = "min_cpu_millicores")]
    MinCpuMillicores,
    #[value(alias = "min_ns_per_day")]
    MinNsPerDay,
    #[value(alias = "min_efficiency")]
    MinEfficiency,
    #[value(alias = "max_configurations")]
    MaxConfigurations,
    #[value(alias = "gpu_price")]
    GpuPrice,
    #[value(alias = "memory_price")]
    MemoryPrice,
    #[value(alias = "interruption_after_seconds")]
    InterruptionAfter,
    #[value(alias = "fallback_after_seconds")]
    FallbackAfter,
}

impl Unset {
    fn column(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Image => "image",
            Self::Append => "append",
            Self::Deadline => "deadline",
            Self::MaxCpuMillicores => "max_cpu_millicores",
            Self::MaxMemoryBytes => "max_memory_bytes",
            Self::MaxGpus => "max_gpus",
            Self::MinCpuMillicores => "min_cpu_millicores",
            Self::MinNsPerDay => "min_ns_per_day",
            Self::MinEfficiency => "min_efficiency",
            Self::MaxConfigurations => "max_configurations",
            Self::GpuPrice => "gpu_price",
            Self::MemoryPrice => "memory_price",
            Self::InterruptionAfter => "interruption_after_seconds",
            Self::FallbackAfter => "fallback_after_seconds",
        }
    }
}

/// How long a completed row shall become, in ns of simulated time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// So much longer than it is.
    More(f64),
    /// So long in all.
    Until(f64),
}

/// A row that is to go on.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Extended {
    /// The row.
    pub id: i64,
    /// Its length until now, ns.
    pub from_ns: f64,
    /// Its length from now on, ns.
    pub to_ns: f64,
    /// The same in steps.
    pub extended_nsteps: i64,
}

impl Edit {
    /// True if it changes nothing but project, labels and deadline, which is possible in every state: nothing is stopped for
    /// them.
    #[must_use]
    pub fn is_always_possible(&self) -> bool {
        let possible = Self {
            project: self.project.clone(),
            labels: self.labels.clone(),
            deadline: self.deadline,
            unset: self
                .unset
                .iter()
                .copied()
                .filter(|option| matches!(option, Unset::Project | Unset::Deadline))
                .collect(),
            ..Self::default()
        };
        *self == possible
    }

    /// The name of an option that is both given and taken back; none if there is none.
    #[must_use]
    pub fn is_set_and_unset(&self) -> Option<String> {
        let ladder = &self.ladder_settings;
        let is_set = |option: &Unset| match option {
            Unset::Project => self.project.is_some(),
            Unset::Image => self.image.is_some(),
            Unset::Append => self.append.is_some(),
            Unset::Deadline => self.deadline.is_some(),
            Unset::MaxCpuMillicores => self.max_cpu_millicores.is_some(),
            Unset::MaxMemoryBytes => self.max_memory_bytes.is_some(),
            Unset::MaxGpus => self.max_gpus.is_some(),
            Unset::MinCpuMillicores => self.min_cpu_millicores.is_some(),
            Unset::MinNsPerDay => self.min_ns_per_day.is_some(),
            Unset::MinEfficiency => ladder.min_efficiency.is_some(),
            Unset::MaxConfigurations => ladder.max_configurations.is_some(),
            Unset::GpuPrice => ladder.gpu_price.is_some(),
            Unset::MemoryPrice => ladder.memory_price.is_some(),
            Unset::InterruptionAfter => self.interruption_after_seconds.is_some(),
            Unset::FallbackAfter => self.fallback_after_seconds.is_some(),
        };
        let both = self.unset.iter().find(|option| is_set(option))?;
        both.to_possible_value().map(|value| value.get_name().to_owned())
    }
}

impl Store {
    /// Changes rows, all or none, and returns those that are there; with `dry_run` the change is taken back.
    ///
    /// # Errors
    /// [`StoreError::BreakRule`] with a sentence for the value or the row that cannot be changed, or the database's.
    pub async fn edit(&self, rows: &[i64], edit: &Edit, dry_run: bool) -> Result<Vec<i64>, StoreError> {
        if *edit == Edit::default() || rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut query: QueryBuilder<Postgres> = QueryBuilder::new("update gromacs_to_tune set ");
        {
            let mut columns = query.separated(", ");
            // Only what is given is named: the database needs to grant, and to check, no more than that.
            macro_rules! set {
                ($edit:expr; $($field:ident),+ $(,)?) => {
                    $(if let Some(value) = &$edit.$field {
                        columns.push(concat!(stringify!($field), " = ")).push_bind_unseparated(value);
                    })+
                };
            }
            set!(
                edit;
                project,
                image,
                append,
                mdrun_options,
                grompp_options,
                after,
                priority,
                max_cpu_millicores,
                max_memory_bytes,
                max_gpus,
                min_cpu_millicores,
                min_ns_per_day,
                interruption_after_seconds,
                fallback_after_seconds,
            );
            set!(edit.ladder_settings; min_efficiency, max_configurations, gpu_price, memory_price);
            if let Some(labels) = &edit.node_labels {
                columns.push("node_labels = ").push_bind_unseparated(Json(&labels.0));
            }
            if let Some(labels) = &edit.labels {
                columns.push("labels = labels || ").push_bind_unseparated(Json(&labels.0));
            }
            match edit.deadline {
                Some(Some(Moment::At(time))) => {
                    columns.push("deadline = ").push_bind_unseparated(sql_time(time));
                }
                Some(Some(Moment::In(seconds))) => {
                    let columns = columns.push("deadline = now() + make_interval(secs => ");
                    columns.push_bind_unseparated(seconds).push_unseparated(")");
                }
                Some(None) => {
                    columns.push("deadline = null");
                }
                None => {}
            }
            for option in &edit.unset {
                columns.push(option.column()).push_unseparated(" = null");
            }
        }
        query.push(" where id = any(").push_bind(rows).push(") returning id");
        let mut transaction = self.pool.begin().await?;
        let changed = query.build_query_scalar().persistent(false).fetch_all(&mut *transaction).await?;
        if dry_run {
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
        }
        Ok(changed)
    }

    /// Requests that completed rows go on for longer, all or none, and returns what becomes of those that are there; with
    /// `dry_run` the request is taken back.
    ///
    /// # Errors
    /// [`StoreError::BreakRule`] with a sentence for the row that cannot be extended, or the database's.
    pub async fn extend(
        &self,
        rows: &[i64],
        length: Length,
        dry_run: bool,
    ) -> Result<Vec<Extended>, StoreError> {
        // What does not fit is far beyond the rule for the column, which has the better sentence.
        const EXTEND: &str = "update gromacs_to_tune set extended_nsteps = least(1e18,
                case when $3 then nsteps else 0 end + round($2::numeric * 1000 / dt_ps::numeric))::bigint
            where id = any($1)
            returning id, nsteps * dt_ps / 1000 as from_ns, extended_nsteps * dt_ps / 1000 as to_ns, extended_nsteps";
        let (ns, is_more) = match length {
            Length::More(ns) => (ns, true),
            Length::Until(ns) => (ns, false),
        };
        let mut transaction = self.pool.begin().await?;
        let mut extended: Vec<Extended> =
            sqlx::query_as(EXTEND).bind(rows).bind(ns).bind(is_more).fetch_all(&mut *transaction).await?;
        if dry_run {
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
        }
        extended.sort_by_key(|row| row.id);
        Ok(extended)
    }

    /// Holds those of `rows` that are queued, or releases them; returns these.
    ///
    /// # Errors
    /// The database's.
    pub async fn set_held(&self, rows: &[i64], held: bool) -> Result<Vec<i64>, StoreError> {
        Ok(sqlx::query_scalar(
            "update gromacs_to_tune set held = $2 where id = any($1) and state = 'queued' returning id",
        )
        .bind(rows)
        .bind(held)
        .fetch_all(&self.pool)
        .await?)
    }

    /// Deletes those of `rows` that have ended, with their history; returns these.
    ///
    /// # Errors
    /// The database's.
    pub async fn remove(&self, rows: &[i64]) -> Result<Vec<i64>, StoreError> {
        Ok(sqlx::query_scalar(
            "delete from gromacs_to_tune where id = any($1)
                and state in ('completed', 'failed', 'cancelled') returning id",
        )
        .bind(rows)
        .fetch_all(&self.pool)
        .await?)
    }
}
