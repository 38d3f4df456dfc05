import { StartupError } from '../errors.ts';
import type { IdentityStore } from '../store/identity.ts';
import type { Logger } from '../telemetry/logger.ts';
import { ADMIN_ROLE } from './builtin-roles.ts';
import { entityName } from './entities.ts';
import { checkPassword, type PasswordHasher } from './passwords.ts';

export interface FirstAdminDeps {
  readonly store: Pick<IdentityStore, 'anyUser' | 'putUser'>;
  readonly hasher: Pick<PasswordHasher, 'hash'>;
  readonly log: Logger;
}

/**
 * Creates the administrator whom the environment names, while there is no user at all.
 * @throws StartupError when the name or the password cannot be used
 */
export async function ensureFirstAdmin(
  { store, hasher, log }: FirstAdminDeps,
  { name, password }: { name: string; password: string },
): Promise<void> {
  try {
    entityName('user', name);
  } catch (error) {
    throw new StartupError(`TENON_ADMIN_USER: ${(error as Error).message}`);
  }
  if (await store.anyUser()) {
    log.info('there are users already: TENON_ADMIN_PASSWORD is not used');
    return;
  }
  try {
    checkPassword(name, password);
  } catch (error) {
    throw new StartupError(`TENON_ADMIN_PASSWORD: ${(error as Error).message}`);
  }
  const passwordHash = await hasher.hash(password);
  const user = { name, passwordHash, backendRoles: [], roles: [ADMIN_ROLE], attributes: {}, disabled: false };
  const written = await store.putUser(user, { onlyFirst: true });
  if (written !== undefined)
    log.info({ user: name }, `user ${name} was created with ${ADMIN_ROLE}, from TENON_ADMIN_PASSWORD`);
}
