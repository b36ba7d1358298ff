// BullMQ: one process, one connection to submit, addBulk in chunks, jobs removed when completed.
// Usage: node bullmq.mjs <folder with node_modules> <job as JSON>; the conversation is that of protocol.py.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(process.argv[2] + "/");
const { Queue, Worker } = require("bullmq");
const IORedis = require("ioredis");

const job = { concurrency: 100, in_flight: 64, rate: 50, ...JSON.parse(process.argv[3]) };
const QUEUE = "noop";
const CHUNK = 500;

const now_us = () => Number(process.hrtime.bigint()) / 1e3;
const cpu_us = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

// Written before the process may end, whatever standard output is.
const emit = (event, facts) =>
  new Promise((written) => process.stdout.write(JSON.stringify({ event, ...facts }) + "\n", written));

async function ready(settings) {
  const version = (name) => require(`${name}/package.json`).version;
  const versions = { bullmq: version("bullmq"), ioredis: version("ioredis"), node: process.versions.node };
  await emit("ready", { versions, settings });
  const lines = createInterface({ input: process.stdin });
  await new Promise((go) => lines.once("line", go));
  lines.close();
}

function connection() {
  const { hostname, port } = new URL(job.url);
  return new IORedis({ host: hostname, port: Number(port), maxRetriesPerRequest: null });
}

async function work() {
  let count = 0;
  let started, cpu;
  const latencies_us = [];
  const noop = async ({ data }) => {
    if (data.sent_ns) latencies_us.push(now_us() - data.sent_ns / 1e3);
    if (count === 0) [started, cpu] = [now_us(), cpu_us()];
    count += 1;
    if (count !== job.tasks) return;
    const facts = { seconds: (now_us() - started) / 1e6, cpu_us: cpu_us() - cpu };
    await emit("done", { tasks: count, ...facts, latencies_us });
    process.exit(0);
  };
  const worker = new Worker(QUEUE, noop, { connection: connection(), concurrency: job.concurrency, autorun: false });
  await worker.waitUntilReady();
  await ready({ processes: 1, concurrency: job.concurrency, removeOnComplete: true });
  await worker.run();
}

const ways = {
  async bulk(queue) {
    for (let sent = 0; sent < job.tasks; sent += CHUNK) {
      const length = Math.min(CHUNK, job.tasks - sent);
      await queue.addBulk(Array.from({ length }, () => ({ name: "noop", data: { sent_ns: 0 } })));
    }
  },
  async concurrent(queue) {
    let left = job.tasks;
    const some = async () => {
      while (left-- > 0) await queue.add("noop", { sent_ns: 0 });
    };
    await Promise.all(Array.from({ length: job.in_flight }, some));
  },
  async paced(queue) {
    const begin = performance.now();
    for (let number = 0; number < job.tasks; number += 1) {
      await sleep(Math.max(0, begin + (number * 1000) / job.rate - performance.now()));
      await queue.add("noop", { sent_ns: Number(process.hrtime.bigint()) });
    }
  },
};

async function submit() {
  const queue = new Queue(QUEUE, { connection: connection(), defaultJobOptions: { removeOnComplete: true } });
  await queue.waitUntilReady();
  await ready(job.role === "bulk" ? { addBulk: CHUNK } : {});
  const [started, cpu] = [now_us(), cpu_us()];
  await ways[job.role](queue);
  await emit("done", { tasks: job.tasks, seconds: (now_us() - started) / 1e6, cpu_us: cpu_us() - cpu });
  process.exit(0);
}

await (job.role === "work" ? work() : submit());
