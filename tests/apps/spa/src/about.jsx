// A chunk of its own.
export default () => <p>All orders are imaginary, release {import.meta.env.VITE_RELEASE}.</p>;
