(* G8 with its division: y_t = N_t/D_t, D_t with EPS in it. backward.v has the gradients of the masked product itself;
   here V' = [V, 1] and dN' = [g_t/D_t, -(g_t . y_t)/D_t], and what follows from scaling: the invariants. Over any
   field; D_t is not 0. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import masked backward.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

(* One row and one column: how a quotient changes, exactly. To first order in (h, c) it is (h - y c)/D: the quotient
   rule. *)
Theorem quotient_change (F : fieldType) (N D h c : F) : D != 0 -> D + c != 0 ->
  (N + h) / (D + c) - N / D = (h - N / D * c) / D * (D / (D + c)).
Proof.
move=> D0 Dc0; rewrite mulrA divfK //; apply: (mulIf Dc0); rewrite mulrBl !divfK // mulrDr divfK //.
by rewrite opprD addrA [N + h]addrC addrK.
Qed.

Lemma ipDr (F : fieldType) m n (A B C : 'M[F]_(m, n)) : ip A (B + C) = ip A B + ip A C.
Proof. by rewrite /ip mulmxDr raddfD. Qed.

Section Divided.
Variables (F : fieldType) (n dk dv : nat) (M : 'M[F]_n) (eps : F).
Implicit Types (Q K : 'M[F]_(n, dk)) (V G : 'M[F]_(n, dv)).
Local Notation "A .* B" := (hadamard A B) (at level 40, left associativity).

Definition A Q K := (Q *m K^T) .* M.
Definition N Q K V := A Q K *m V.                                        (* numerators *)
Definition D Q K (t : 'I_n) := \sum_j A Q K t j + eps.                    (* denominators *)
Definition Y Q K V : 'M[F]_(n, dv) := \matrix_(t, c) (N Q K V t c / D Q K t).
Definition one : 'M[F]_(n, 1) := const_mx 1.
Definition V' V := row_mx V one.                                         (* [V, 1] *)

Variables (Q K : 'M[F]_(n, dk)) (V G : 'M[F]_(n, dv)).
Hypothesis D0 : forall t, D Q K t != 0.

(* [g_t/D_t, -(g_t . y_t)/D_t] *)
Definition gy t := \sum_c G t c * Y Q K V t c.
Definition dN' : 'M[F]_(n, dv + 1) := row_mx (\matrix_(t, c) (G t c / D Q K t)) (\col_t (- gy t / D Q K t)).

(* The change of Y that the quotient rule gives for changes X, Z, W of Q, K, V: those of N' first. *)
Definition changeN' X Z W : 'M[F]_(n, dv + 1) :=
  A X K *m V' V + A Q Z *m V' V + row_mx (A Q K *m W) 0.
Definition changeY X Z W : 'M[F]_(n, dv) :=
  \matrix_(t, c) ((changeN' X Z W t (lshift 1 c) - Y Q K V t c * changeN' X Z W t (rshift dv 0)) / D Q K t).

(* G8: dQ, dK and dV from dN' are the gradients: <G, change of Y> = <dQ, X> + <dK, Z> + <dV, W>. *)
Theorem G8_gradients X Z W :
  ip G (changeY X Z W) = ip (dQ M K (V' V) dN') X + ip (dK M Q (V' V) dN') Z + ip (lsubmx (dV M Q K dN')) W.
Proof.
have -> : ip G (changeY X Z W) = ip dN' (changeN' X Z W).
  rewrite /changeY; move: (changeN' X Z W) => h; rewrite !ipE; apply: eq_bigr => t _.
  rewrite big_split_ord /= big_ord1 row_mxEr mxE /gy -sumrN !mulr_suml -big_split /=.
  apply: eq_bigr => c _; rewrite row_mxEl [X in _ * X = _]mxE [X in _ = X * _ + _]mxE.
  by rewrite mulrA mulrBr mulrBl !mulNr; congr (_ - _); [exact: mulrAC | rewrite mulrA mulrAC].
rewrite /changeN' !ipDr; congr (_ + _ + _); [exact: grad_Q | exact: grad_K |].
have -> : row_mx (A Q K *m W) (0 : 'M_(n, 1)) = A Q K *m row_mx W 0 by rewrite mul_mx_row mulmx0.
rewrite [LHS](grad_V M Q K dN') !ipE; apply: eq_bigr => t _; rewrite big_split_ord /= [X in _ + X]big1 => [|c _].
  by rewrite addr0; apply: eq_bigr => c _; rewrite row_mxEl [lsubmx _ _ _]mxE.
by rewrite row_mxEr [X in _ * X]mxE mulr0.
Qed.

(* Scaling: rows of Q by l_t, or all of K by one l, do not change Y where EPS = 0. *)
Lemma Y_scale Q1 K1 (l : 'I_n -> F) : eps = 0 -> (forall t, l t != 0) -> (forall t j, A Q1 K1 t j = l t * A Q K t j) ->
  Y Q1 K1 V = Y Q K V.
Proof.
move=> e0 l0 h; apply/matrixP => t c; rewrite !mxE /D e0 !addr0.
have -> : \sum_j A Q1 K1 t j * V j c = l t * \sum_j A Q K t j * V j c.
  by rewrite mulr_sumr; apply: eq_bigr => j _; rewrite h mulrA.
have -> : \sum_j A Q1 K1 t j = l t * \sum_j A Q K t j by rewrite mulr_sumr; apply: eq_bigr => j _; rewrite h.
by rewrite -mulf_div divff ?l0 // mul1r.
Qed.

Theorem G8_scale_Q (l : 'I_n -> F) : eps = 0 -> (forall t, l t != 0) -> Y (\matrix_(t, c) (l t * Q t c)) K V = Y Q K V.
Proof.
move=> e0 l0; apply: (Y_scale e0 l0) => t j; rewrite !mxE mulrA; congr (_ * _); rewrite mulr_sumr.
by apply: eq_bigr => c _; rewrite !mxE mulrA.
Qed.

Theorem G8_scale_K (l : F) : eps = 0 -> l != 0 -> Y Q (l *: K) V = Y Q K V.
Proof.
move=> e0 l0; apply: (@Y_scale _ _ (fun _ => l)) => // t j; rewrite !mxE mulrA; congr (_ * _); rewrite mulr_sumr.
by apply: eq_bigr => c _; rewrite !mxE mulrCA.
Qed.

(* G8, invariants: q_t . dq_t = (EPS/D_t) g_t . y_t for every t, 0 where EPS = 0; *)
Theorem G8_rows t : \sum_c Q t c * dQ M K (V' V) dN' t c = eps / D Q K t * gy t.
Proof.
pose QK := Q *m K^T; pose dAt := dA M (V' V) dN'.
have -> : \sum_c Q t c * dQ M K (V' V) dN' t c = \sum_j dAt t j * QK t j.
  under eq_bigr do rewrite mxE mulr_sumr.
  rewrite exchange_big /=; apply: eq_bigr => j _; rewrite [QK t j]mxE mulr_sumr.
  by apply: eq_bigr => c _; rewrite [K^T _ _]mxE mulrCA.
have -> : \sum_j dAt t j * QK t j = \sum_e dN' t e * (A Q K *m V' V) t e.
  under [RHS]eq_bigr do rewrite [(A Q K *m _) t _]mxE mulr_sumr.
  rewrite exchange_big /=; apply: eq_bigr => j _; rewrite [dAt t j]mxE [(dN' *m _) t j]mxE -mulrA mulr_suml.
  apply: eq_bigr => e _; rewrite [(V' V)^T _ _]mxE [A Q K t j]mxE -[LHS]mulrA; congr (_ * _).
  by rewrite [LHS]mulrC; congr (_ * _); exact: mulrC.
rewrite /V' mul_mx_row big_split_ord /= big_ord1 !row_mxEr mxE.
have -> : (A Q K *m one) t 0 = D Q K t - eps.
  by rewrite mxE /D addrK; apply: eq_bigr => j _; rewrite [X in _ * X]mxE mulr1.
have -> : \sum_c dN' t (lshift 1 c) * row_mx (A Q K *m V) (A Q K *m one) t (lshift 1 c) = gy t.
  apply: eq_bigr => c _; rewrite row_mxEl.
  have -> : dN' t (lshift 1 c) = G t c / D Q K t by rewrite row_mxEl mxE.
  have -> : Y Q K V t c = (A Q K *m V) t c / D Q K t by rewrite mxE.
  by rewrite mulrA mulrAC.
set y := gy t; set d := D Q K t; have d0 : d != 0 by apply: D0.
by rewrite mulrBr divfK // addrA subrr sub0r !mulNr opprK mulrC mulrA mulrAC.
Qed.

(* and the sum over all t of k_t . dk_t is the sum of the same. *)
Corollary G8_keys : \sum_t \sum_c K t c * dK M Q (V' V) dN' t c = \sum_t eps / D Q K t * gy t.
Proof.
under [RHS]eq_bigr do rewrite -G8_rows.
have [e _] := euler M Q K (V' V) dN'.
by rewrite -!ipE ipC -e ipC.
Qed.
End Divided.
