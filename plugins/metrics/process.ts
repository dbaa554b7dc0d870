/** Figures of the process: its memory, CPU time, event loop, garbage collection (prom-client's own). */
import { collectDefaultMetrics, Registry } from 'prom-client'

const left = [
  // Gauges with the names of counters, and two that read Node's internals; `nodejs_active_resources` has the same figures.
  'nodejs_active_handles',
  'nodejs_active_handles_total',
  'nodejs_active_requests',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  // NaN, or a huge number, if nothing was measured since the last scrape.
  'nodejs_eventloop_lag_min_seconds',
  'nodejs_eventloop_lag_mean_seconds',
  'nodejs_eventloop_lag_stddev_seconds'
]

let process: Registry | undefined

/** Adds them to a registry. The observers of the process exist once, for any number of apps. */
export function addProcessMetrics (registry: Registry): void {
  process ??= collected()
  for (const { name } of process.getMetricsAsArray()) {
    const metric = process.getSingleMetric(name)
    if (metric !== undefined) registry.registerMetric(metric)
  }
}

function collected (): Registry {
  const register = new Registry()
  collectDefaultMetrics({ register })
  for (const name of left) register.removeSingleMetric(name)
  return register
}
