//! What else may listen where the gate should: it must not be believed, and gets no token.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentguard_testkit::GateProcess;

use crate::support::{fails, gate, says};

type Heard = Arc<Mutex<String>>;

/// Answers every request on `listener` with what `answer` makes of it, and keeps what it heard.
fn listen(
    listener: TcpListener,
    answer: impl Fn(&str) -> Option<String> + Send + 'static,
) -> Heard {
    let heard = Heard::default();
    let kept = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(stream, &kept, &answer);
        }
    });
    heard
}

fn serve(mut stream: TcpStream, heard: &Heard, answer: impl Fn(&str) -> Option<String>) {
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut bytes = [0; 16_384];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        let request = String::from_utf8_lossy(bytes.get(..count).unwrap()).into_owned();
        heard.lock().unwrap().push_str(&request);
        let Some(response) = answer(&request) else { return };
        if stream.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

fn ok(body: &str) -> Option<String> {
    let (head, length) = ("HTTP/1.1 200 OK\r\ncontent-type: application/json", body.len());
    Some(format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}"))
}

/// No command believes it or tells it the token.
fn check(gate: &GateProcess, heard: &Heard, refused: &[&[&str]]) {
    let token = std::fs::read_to_string(gate.data_dir().join("admin.token")).unwrap();
    for args in refused {
        let (code, said) = fails(gate, args);
        assert_eq!(code, 1, "{args:?}: {said}");
        assert!(said.contains("something else answers"), "{args:?}: {said}");
        assert!(said.contains("hint: "), "{args:?}: {said}");
    }
    let heard = heard.lock().unwrap();
    assert!(!heard.is_empty());
    assert!(!heard.contains(token.trim()), "{heard}");
    assert!(!heard.to_ascii_lowercase().contains("authorization"), "{heard}");
}

#[test]
fn what_only_says_yes_is_not_believed_and_gets_no_token() {
    let mut gate = gate();
    assert_eq!(gate.terminate().code(), Some(0));
    let listener = TcpListener::bind(gate.admin_addr()).unwrap();
    let yes = format!(r#"{{"paused":true,"items":[],"proof":"{}"}}"#, "0".repeat(64));
    let heard = listen(listener, move |_| ok(&yes));
    let commands = [&["kill"][..], &["agent", "list", "--json"], &["resume", "--yes"]];
    check(&gate, &heard, &commands);
}

#[test]
fn a_program_that_passes_the_question_on_to_the_gate_is_not_believed() {
    let gate = gate();
    assert!(says(&gate, &["agent", "list"]).contains("default"));
    let real = gate.admin_addr();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let false_one = listener.local_addr().unwrap();
    let text = std::fs::read_to_string(gate.config_path()).unwrap();
    // The running gate keeps its address; the command line reads the changed file.
    let moved = text.replace(&real.to_string(), &false_one.to_string());
    std::fs::write(gate.config_path(), moved).unwrap();
    let heard = listen(listener, move |request| relayed(request, false_one, real));
    check(&gate, &heard, &[&["agent", "list", "--json"][..], &["resume", "--yes"]]);
    assert!(heard.lock().unwrap().contains("/api/v1/proof?nonce="));
    // A stop does not depend on who has the port: the gate itself hears a signal.
    assert!(says(&gate, &["kill"]).contains("by signal"));
}

fn relayed(request: &str, from: SocketAddr, to: SocketAddr) -> Option<String> {
    let request = request.replace(&from.to_string(), &to.to_string());
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = [0; 16_384];
    let count = stream.read(&mut bytes).unwrap();
    Some(String::from_utf8_lossy(bytes.get(..count).unwrap()).into_owned())
}
