//! The flags that say where the operator is.

use std::{marker::PhantomData, path::PathBuf, time::Duration};

use crate::client::ReportTo;

/// A program, by what these flags have of their own.
pub trait Program {
    /// Variable of `--report-url`.
    const REPORT_URL: &'static str;
    /// Variable of `--report-token`.
    const REPORT_TOKEN: &'static str;
    /// Variable of `--report-ca`.
    const REPORT_CA: &'static str;
}

/// Where reports go.
#[derive(Debug, Clone, clap::Args)]
pub struct Reports<P: Program> {
    /// Send reports to this URL, which begins with https://
    #[arg(
        long,
        value_name = "URL",
        value_parser = https,
        requires_all = ["report_token", "report_ca"],
        env = P::REPORT_URL,
        help_heading = "Reports"
    )]
    report_url: Option<String>,
    /// Read the bearer token from this file for each report
    #[arg(long, value_name = "PATH", env = P::REPORT_TOKEN, help_heading = "Reports")]
    report_token: Option<PathBuf>,
    /// Read the certificates to trust (PEM) from this file for each report
    #[arg(long, value_name = "PATH", env = P::REPORT_CA, help_heading = "Reports")]
    report_ca: Option<PathBuf>,
    #[arg(skip)]
    program: PhantomData<P>,
}

impl<P: Program> Reports<P> {
    /// None if no URL was given.
    #[must_use]
    pub fn to(self) -> Option<ReportTo> {
        Some(ReportTo { url: self.report_url?, token: self.report_token?, ca: self.report_ca? })
    }
}

/// A number with its unit.
///
/// # Errors
/// What a user may write instead.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration; write a number and its unit (ms, s, m, h), like 10s");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let scale = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(bad()),
    };
    // More than a year overflows the arithmetic of clocks somewhere.
    match number.checked_mul(scale) {
        Some(0) => Err("a duration is longer than 0".to_owned()),
        Some(milliseconds) if milliseconds <= 366 * 86_400_000 => Ok(Duration::from_millis(milliseconds)),
        _ => Err(bad()),
    }
}

/// A token is never sent in clear text.
///
/// # Errors
/// If the URL does not begin with `https://`.
pub fn https(text: &str) -> Result<String, String> {
    if text.starts_with("https://") {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} does not begin with https://"))
    }
}
