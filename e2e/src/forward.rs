//! A port of a pod on this machine, as `kubectl port-forward` makes it: what the pods listen on can be reached from
//! outside the cluster in no other way.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

/// Listens on a port of the loopback device, for as long as the test runs, and passes each connection on to the pod.
///
/// # Errors
/// If no port can be listened on.
pub async fn forward(client: &Client, namespace: &str, pod: &'static str, port: u16) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let pods = pods.clone();
            tokio::spawn(async move {
                if let Err(error) = pass_on(&pods, pod, port, connection).await {
                    eprintln!("the connection to port {port} of pod {pod} broke: {error:#}");
                }
            });
        }
    });
    Ok(address)
}

async fn pass_on(pods: &Api<Pod>, pod: &str, port: u16, mut connection: TcpStream) -> Result<()> {
    let mut forwarder = pods.portforward(pod, &[port]).await?;
    let mut stream = forwarder.take_stream(port).context("the port was not forwarded")?;
    copy_bidirectional(&mut connection, &mut stream).await?;
    drop(stream);
    Ok(forwarder.join().await?)
}
