/** Why a run that goes on later is given up here and now: nothing of it is settled, its journal stays open. */
export class RunSuspended extends Error {
  override name = 'RunSuspended';
}

/** Whether the signal ended the work of a run that goes on later. */
export function isSuspended(signal: AbortSignal): boolean {
  return signal.aborted && signal.reason instanceof RunSuspended;
}
