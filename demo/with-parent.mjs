// Preloaded into the servers of the demo: they end when the process that started them is gone, however it went.
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
process.channel?.unref();
