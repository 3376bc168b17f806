// Node's own client of HTTP/2 asks for WebSocket by extended CONNECT (RFC 8441): several tunnels that echo a megabyte each,
// and pages beside them, over one connection.
//
//     node websocket.mjs URL CA-FILE|-

import http2 from "node:http2";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";

const [url, ca] = process.argv.slice(2);
const session = http2.connect(url, ca === "-" ? {} : { ca: readFileSync(ca) });
session.on("error", fail);

function fail(error) {
    console.log(`failed: ${error}`);
    process.exit(1);
}

const settings = await new Promise((done) => session.once("remoteSettings", done));
if (!settings.enableConnectProtocol) fail("the server does not offer it");

/** One tunnel, into which everything is written at once; what came back. */
function tunnel(bytes) {
    return new Promise((done, failed) => {
        const stream = session.request(
            {
                ":method": "CONNECT",
                ":protocol": "websocket",
                ":path": "/chat",
                "sec-websocket-version": "13",
            },
            { endStream: false },
        );
        const parts = [];
        stream.on("response", (head) => head[":status"] === 200 || failed(`status ${head[":status"]}`));
        stream.on("data", (part) => parts.push(part));
        stream.on("end", () => done(Buffer.concat(parts)));
        stream.on("error", failed);
        stream.end(bytes);
    });
}

function page() {
    return new Promise((done, failed) => {
        const stream = session.request({ ":path": "/page" });
        let text = "";
        stream.setEncoding("utf8");
        stream.on("data", (part) => (text += part));
        stream.on("end", () => done(text));
        stream.on("error", failed);
    });
}

try {
    const sent = [1, 2, 3].map(() => randomBytes(1 << 20));
    const waiting = sent.map(tunnel);
    for (let at = 0; at < 20; at += 1) {
        const text = await page();
        if (text !== "plain") fail(`a page of ${text.length} characters`);
    }
    const got = await Promise.all(waiting);
    got.forEach((it, at) => it.equals(sent[at]) || fail(`${it.length} bytes came back`));
    console.log("echoed");
    session.close();
} catch (error) {
    fail(error);
}
