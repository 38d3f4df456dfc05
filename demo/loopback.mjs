// Preloaded into a server that has no option for its address: whatever it listens on without naming a host becomes
// 127.0.0.1, and the port it got is told to the parent process.
import { Server } from 'node:net';

const listen = Server.prototype.listen;
Server.prototype.listen = function listenOnLoopback(...values) {
  this.once('listening', () => process.send?.({ port: this.address().port }));
  const [port, ...rest] = values;
  const names = typeof port === 'object' || typeof rest[0] === 'string';
  return listen.apply(this, names ? values : [Number(port), '127.0.0.1', ...rest]);
};
