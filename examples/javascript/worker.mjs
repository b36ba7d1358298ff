// A worker that knows HTTP and nothing else: node worker.mjs http://127.0.0.1:9090 [lane]
// It claims work, keeps its lease, tells how far it is, streams frames, and ends each attempt in success or failure.
import { randomUUID } from 'node:crypto'

const [server, lane = 'default'] = process.argv.slice(2)
const token = process.env.FLOWFABRIC_TOKEN
const [ttl, me] = [30_000, { worker_id: 'javascript', worker_instance_id: `javascript-${randomUUID()}` }]
const stopping = new AbortController()
for (const name of ['SIGTERM', 'SIGINT']) process.once(name, () => stopping.abort())

const tasks = {
  // Each gets its arguments and a context, and answers a JSON value; what it throws is a failure.
  async shout ({ args: [text] }, context) {
    for (const word of text.split(' ')) await context.emit(word.toUpperCase())
    await context.progress(100, 'all said')
    return text.toUpperCase()
  }
}

async function post (path, body, signal) {
  const headers = { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) }
  const answer = await fetch(`${server}/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body), signal })
  const value = await answer.json()
  if (!answer.ok) throw Object.assign(new Error(value.message), value)
  return value
}

const base64 = value => Buffer.from(value).toString('base64')
async function run (work) {
  const { execution_id: id, fence, attempt_index } = work
  const say = (operation, body) => post(`/executions/${encodeURIComponent(id)}/${operation}`, { fence, ...body })
  const context = {
    emit: (text) => say('frames', { attempt_index, frame_type: 'text', payload: base64(text) }),
    progress: (percent, message) => say('progress', { progress_pct: percent, progress_message: message })
  }
  const renewing = setInterval(() => say('renew', { attempt_index, lease_ttl_ms: ttl }).catch(console.error), ttl / 3)
  try {
    const task = tasks[work.execution_kind] ?? (() => { throw new Error(`no task is called ${work.execution_kind}`) })
    const result = await task(JSON.parse(Buffer.from(work.input_payload, 'base64')), context)
    await say('complete', { result_payload: base64(JSON.stringify(result ?? null)), result_encoding: 'json' })
  } catch (error) {
    await say('fail', { failure_reason: String(error.message), failure_category: 'error' })
  } finally {
    clearInterval(renewing)
  }
}

const wanted = { ...me, lanes: [lane], lease_ttl_ms: ttl, count: 8, wait_ms: 20_000 }
await post('/workers', { ...me, namespace: 'default', lanes: [lane], ttl_ms: 2 * ttl, slots: wanted.count })
const alive = () => post(`/workers/${me.worker_instance_id}/heartbeat`, { namespace: 'default' }).catch(console.error)
setInterval(alive, ttl).unref()
console.log(`${me.worker_instance_id} works on ${lane}`)
while (!stopping.signal.aborted) {
  try {
    const claimed = await post('/work/claim', wanted, stopping.signal)
    await Promise.all(claimed.filter(work => !work.error).map(work => run(work).catch(console.error)))
  } catch (error) {
    if (!stopping.signal.aborted) await new Promise(resolve => setTimeout(resolve, 1000, console.error(error)))
  }
}
