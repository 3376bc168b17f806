// A button for a change: disabled, with the reason, where the role of the client does not permit it.
import type { JSX } from 'preact';
import { type Role, may, needs } from '../identity';

type Props = JSX.IntrinsicElements['button'] & { role?: never; of?: Role };

/** `of` is the role that the change needs. */
export function Act({ of = 'operator', disabled, title, ...rest }: Props): JSX.Element {
  const permitted = may(of);
  return <button {...rest} disabled={!permitted || disabled === true} title={permitted ? title : needs(of)} />;
}
