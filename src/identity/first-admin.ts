import { StartupError } from '../errors.ts';
import type { IdentityStore } from '../store/identity.ts';
import type { Logger } from '../telemetry/logger.ts';
import { hasAdministrator } from './administrators.ts';
import { ADMIN_ROLE } from './builtin-roles.ts';
import { entityName } from './entities.ts';
import { checkPassword, type PasswordHasher } from './passwords.ts';

export interface FirstAdminDeps {
  readonly store: Pick<IdentityStore, 'content' | 'putUser'>;
  readonly hasher: Pick<PasswordHasher, 'hash'>;
  readonly log: Logger;
}

/**
 * Creates the administrator whom the environment names, while no enabled user is an administrator. Changes no
 * user there is.
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
  const { users, ...rest } = await store.content();
  if (hasAdministrator({ users, ...rest })) {
    log.info('there is an administrator already: TENON_ADMIN_PASSWORD is not used');
    return;
  }
  if (users.some((user) => user.name === name)) {
    log.warn(
      { user: name },
      `no enabled user has ${ADMIN_ROLE}, and user ${name} is there already: TENON_ADMIN_PASSWORD is not used. Name another with TENON_ADMIN_USER, or change ${name} with TENON_API_KEY`,
    );
    return;
  }
  try {
    checkPassword(name, password);
  } catch (error) {
    throw new StartupError(`TENON_ADMIN_PASSWORD: ${(error as Error).message}`);
  }
  const passwordHash = await hasher.hash(password);
  const user = { name, passwordHash, backendRoles: [], roles: [ADMIN_ROLE], attributes: {}, disabled: false };
  const written = await store.putUser(user, {
    onlyIf: (content) => !hasAdministrator(content) && content.users.every((other) => other.name !== name),
  });
  if (written !== undefined)
    log.info({ user: name }, `user ${name} was created with ${ADMIN_ROLE}, from TENON_ADMIN_PASSWORD`);
}
