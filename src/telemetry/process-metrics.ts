import { readdirSync } from 'node:fs';
import { Counter, Gauge, type Registry } from 'prom-client';

/**
 * What the process itself uses, under the names that Prometheus clients share. Each value is read when it is asked for:
 * no timer and no observer outlives the registry.
 */
export function processMetrics(registry: Registry): void {
  const started = Date.now() / 1000 - process.uptime();
  const gauge = (name: string, help: string, read: () => number | undefined) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        const value = read();
        if (value !== undefined) this.set(value);
      },
    });
  new Counter({
    name: 'process_cpu_seconds_total',
    help: 'Time on a processor, user and system.',
    registers: [registry],
    collect() {
      const { user, system } = process.cpuUsage();
      this.reset();
      this.inc((user + system) / 1e6);
    },
  });
  gauge('process_resident_memory_bytes', 'Resident memory.', () => process.memoryUsage.rss());
  gauge('process_start_time_seconds', 'Start of the process, Unix time.', () => started);
  gauge('process_open_fds', 'Open file descriptors, where the system tells.', openFiles);
  gauge('nodejs_heap_size_used_bytes', 'Heap in use.', () => process.memoryUsage().heapUsed);
  gauge('nodejs_heap_size_total_bytes', 'Heap in all.', () => process.memoryUsage().heapTotal);
  gauge('nodejs_external_memory_bytes', 'Memory outside the heap.', () => process.memoryUsage().external);
}

function openFiles(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length;
  } catch {
    return undefined;
  }
}
