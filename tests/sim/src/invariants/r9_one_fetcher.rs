//! R9: a partition that a broker follows has one fetcher there, and one that it leads has none.
//! Not here: whether the fetcher gets on (liveness).
//! Pure. Source: kip_966_properties.tla, ValidFetchers; KAFKA-13603-like reports.

use super::{Checked, require};
use crate::message::Address;
use crate::oracle::PartitionKey;

pub fn check(broker: Address, key: PartitionKey, leads: bool, fetchers: usize) -> Checked {
    let most = usize::from(!leads);
    require(fetchers <= most, || {
        format!("broker {broker} has {fetchers} fetchers for {key:?}, which it leads: {leads}")
    })
}
