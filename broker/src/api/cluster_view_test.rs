use super::*;
use crate::api::test_image::{PARTITION, TestImage, viewpoint};

#[test]
fn other_nodes_are_shown_as_they_registered() {
    let image = TestImage::new()
        .broker(1, "one", 9092)
        .broker(2, "two", 9093)
        .image();
    let shown: Vec<(String, i32)> = viewpoint(1, Some(("one.example", 9092)))
        .nodes(&image)
        .map(|node| (node.host, node.port))
        .collect();
    assert_eq!(shown, [("one".to_owned(), 9092), ("two".to_owned(), 9093)]);
}

#[test]
fn a_node_without_advertised_listeners_is_where_the_client_found_it() {
    let image = TestImage::new()
        .broker(1, "my-hostname", 0)
        .broker(2, "0.0.0.0", 9093)
        .image();
    for advertised in [None, Some(("", 9092)), Some(("0.0.0.0", 9092))] {
        let shown: Vec<(String, i32)> = viewpoint(1, advertised)
            .nodes(&image)
            .map(|node| (node.host, node.port))
            .collect();
        // 0.0.0.0 means something only to the node itself.
        assert_eq!(
            shown,
            [
                ("192.0.2.7".to_owned(), 19092),
                ("192.0.2.7".to_owned(), 9093)
            ]
        );
    }
}

#[test]
fn a_broker_without_the_askers_listener_is_not_shown() {
    let image = TestImage::new().broker(1, "one", 9092).image();
    let elsewhere = Viewpoint {
        listener: "EXTERNAL".into(),
        ..viewpoint(1, None)
    };
    assert_eq!(elsewhere.nodes(&image).count(), 0);
}

#[test]
fn partitions_tell_what_is_wrong() {
    let cluster = || {
        TestImage::new()
            .broker(1, "one", 9092)
            .broker(2, "two", 9092)
    };
    let of = |replicas: &[i32], leader: i32| kavka_metadata::PartitionRegistration {
        replicas: replicas.iter().copied().map(NodeId).collect(),
        isr: replicas.iter().copied().map(NodeId).collect(),
        leader: NodeId(leader),
        ..PARTITION
    };
    let here = viewpoint(1, None);
    let fenced = cluster().fenced(2).image();
    let view = here.partition(&fenced, &of(&[1, 2], 1), false, true);
    assert_eq!(
        (view.error, view.leader_id, view.offline_replicas),
        (ErrorCode::None, 1, vec![2])
    );
    let unregistered = cluster().image();
    let view = here.partition(&unregistered, &of(&[1, 3], 1), false, true);
    assert_eq!(
        (view.error, view.replicas, view.offline_replicas),
        (ErrorCode::None, vec![1, 3], vec![3])
    );
    let view = here.partition(&unregistered, &of(&[1, 3], 1), true, false);
    assert_eq!(
        (view.error, view.replicas),
        (ErrorCode::ReplicaNotAvailable, vec![1]),
        "version 0"
    );
    let view = here.partition(&unregistered, &of(&[1], -1), false, true);
    assert_eq!(
        (view.error, view.leader_id),
        (ErrorCode::LeaderNotAvailable, -1)
    );
    let elsewhere = Viewpoint {
        listener: "EXTERNAL".into(),
        ..viewpoint(1, None)
    };
    let view = elsewhere.partition(&unregistered, &of(&[1], 1), false, true);
    assert_eq!(
        (view.error, view.leader_id),
        (ErrorCode::ListenerNotFound, -1)
    );
    let view = elsewhere.partition(&unregistered, &of(&[1], 1), false, false);
    assert_eq!(view.error, ErrorCode::LeaderNotAvailable);
}
