//! The summary of a load.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;

use super::Args;
use super::tally::Tally;

#[derive(Debug, Clone)]
pub struct Report {
    pub connections: u32,
    /// Connections that the peer has ended.
    pub ended_early: u64,
    pub sent: u64,
    pub received: u64,
    pub lost: u64,
    /// Replies to the messages of another connection.
    pub crossed: u64,
    /// Replies to nothing that was sent, or with another content.
    pub corrupt: u64,
    pub duplicate: u64,
    /// Replies of another type than was expected.
    pub mistyped: u64,
    /// How long messages were sent.
    pub sending: Duration,
    /// Replies per second, in that time.
    pub throughput: f64,
    /// Messages per second that were asked for.
    pub rate: Option<u32>,
    /// In nanoseconds.
    pub latencies: Histogram<u64>,
}

impl Report {
    pub(super) fn new(args: &Args, tallies: Vec<Tally>) -> Result<Report> {
        let mut total = Tally::new()?;
        for tally in &tallies {
            total.add(tally)?;
        }
        Ok(Report {
            connections: args.connections,
            ended_early: total.ended_early,
            sent: total.sent,
            received: total.received,
            lost: total.outstanding(),
            crossed: total.crossed,
            corrupt: total.corrupt,
            duplicate: total.duplicate,
            mistyped: total.mistyped,
            sending: total.sending,
            throughput: per_second(total.received_sending, total.sending),
            rate: args.rate,
            latencies: total.latencies,
        })
    }

    /// Whether every message got one reply, the right one.
    pub fn is_clean(&self) -> bool {
        let faults = [self.lost, self.crossed, self.corrupt, self.duplicate, self.mistyped];
        self.ended_early == 0 && faults == [0; 5]
    }

    /// The rate that was asked for, if less than 99% of it was sent.
    pub fn missed_rate(&self) -> Option<u32> {
        let due = f64::from(self.rate?) * self.sending.as_secs_f64();
        self.rate.filter(|_| ((self.sent + 1) as f64) < 0.99 * due)
    }

    /// As one line.
    pub fn json(&self) -> String {
        let micros = |latency: u64| latency as f64 / 1e3;
        let [p50, p99, p999, max] = self.percentiles().map(micros);
        let Report { connections, ended_early, sent, received, lost, .. } = self;
        let Report { crossed, corrupt, duplicate, mistyped, throughput, .. } = self;
        let seconds = self.sending.as_secs_f64();
        let rate_kept = self.missed_rate().is_none();
        format!(
            "{{\"connections\":{connections},\"ended_early\":{ended_early},\"sent\":{sent},\
             \"received\":{received},\"lost\":{lost},\"crossed\":{crossed},\"corrupt\":{corrupt},\
             \"duplicate\":{duplicate},\"mistyped\":{mistyped},\"seconds\":{seconds:.3},\
             \"messages_per_second\":{throughput:.0},\"rate_kept\":{rate_kept},\
             \"p50_us\":{p50:.1},\"p99_us\":{p99:.1},\"p99.9_us\":{p999:.1},\"max_us\":{max:.1}}}"
        )
    }

    fn percentiles(&self) -> [u64; 4] {
        [0.5, 0.99, 0.999, 1.0].map(|quantile| self.latencies.value_at_quantile(quantile))
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { connections, ended_early, sent, received, lost, .. } = self;
        let Report { crossed, corrupt, duplicate, mistyped, throughput, .. } = self;
        let seconds = self.sending.as_secs_f64();
        let [p50, p99, p999, max] = self.percentiles().map(|latency| latency as f64 / 1e6);
        writeln!(f, "connections  {connections}, {ended_early} ended early")?;
        writeln!(f, "messages     {sent} sent, {received} answered, {lost} lost")?;
        writeln!(
            f,
            "replies      {crossed} crossed, {corrupt} corrupt, {duplicate} duplicate, \
             {mistyped} of a wrong type"
        )?;
        writeln!(f, "throughput   {throughput:.0} messages/s for {seconds:.1} s")?;
        if let Some(rate) = self.missed_rate() {
            let sent = per_second(*sent, self.sending);
            writeln!(f, "             {rate} messages/s were due, {sent:.0} could be sent")?;
        }
        write!(
            f,
            "latency      p50 {p50:.3} ms, p99 {p99:.3} ms, p99.9 {p999:.3} ms, max {max:.3} ms"
        )
    }
}
